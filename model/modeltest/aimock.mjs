// Runs aimock's server until standard input ends, so that it ends with the test that started it, however that ends.
process.stdin.resume().on("end", () => process.exit());
await import("./node_modules/@copilotkit/aimock/dist/cli.js");
