// Package setup makes the databases that dibs works with, or adds what existing ones lack. It
// changes and removes nothing that is there, except that rows which are ticked as done get their first
// status. It plans first, and planning only reads.
package setup
