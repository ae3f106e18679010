// Package emulator is a server that speaks Notion's REST API well enough for any Notion client to
// work against it. It reproduces what matters to software that shares a database: dates cut to the
// minute, no conditional writes, a fixed rate-limit window, writes that are saved and still answer
// an error, queries that return old rows.
//
// The emulator is an [http.Handler]. Tests use it through [Emulator.Client], an in-memory HTTP
// client that works inside a testing/synctest bubble. Further methods bypass the API, as a person
// does who edits in Notion's own interface. Faults, latency, rate and block limits are injected.
//
// Every request takes effect atomically, at one instant; the Date header of its answer is that
// instant, cut to the second.
//
// # Events
//
// With a webhook it posts a verification token until the answer is 2xx, and then events as Notion does,
// signed with the token (X-Notion-Signature). Each type has Notion's delay, longer by a random part, so
// that events overtake each other; properties_updated of a minute, and content_updated of 30 seconds,
// are one event. An answer other than 2xx within ten seconds is a failure: the event comes again, under
// the same id, after 1, 5 and 15 minutes and 1, 2, 5 and 11 hours, and is lost after that.
//
// # Faults
//
// A POST to /_emulator/faults, with the token as the bearer, makes things go wrong, and DELETE ends
// that: {"kind": "LoseEvent", "event": "page.*", "skip": 2, "times": 1}. With event a fault strikes the
// attempts to send such events (LoseEvent, RepeatEvent, Delay, Stop, DropRequest, DropAnswer), without
// it the requests of its method and path.
package emulator
