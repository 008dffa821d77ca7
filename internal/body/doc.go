// Package body reads the JSON bodies of requests, for the handlers of an agent.
//
//	text, err := body.Read(w, r, limit)
//	o, err := body.Parse(text)
//	name := o.Text("name")
//	o.Each("items", func(item *body.Object) { … })
//	if err := o.Fault(); err != nil {
//		return err // the first member whose shape is wrong, with its path
//	}
package body
