package task

// Change is a task that a reading showed to be new or different.
type Change struct {
	Before *Task // nil for a new one; not to be changed
	After  Task
}
