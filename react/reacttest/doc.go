// Package reacttest helps to test what is built on package react: a model that follows a
// [Script], and the suite that every adapter of a real one must pass ([RunModel]).
package reacttest
