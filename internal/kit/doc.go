// Package kit holds, one package each, what any program could use: a clock, locks by key, ordered
// sets, rate limits, waits after failures, files that nobody else could have put there.
//
// Nothing below kit knows a task, a claim, or Notion: it imports only kit.
package kit
