package clock

// Bell wakes whoever receives from it. It keeps one ring for who is not receiving just then; further
// ones are the same. Any number may ring it at the same time.
type Bell chan struct{}

// NewBell returns a bell that has not been rung.
func NewBell() Bell { return make(Bell, 1) }

// Ring rings the bell, and does not wait until it is heard.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// Quiet forgets a ring that nobody has heard.
func (b Bell) Quiet() {
	select {
	case <-b:
	default:
	}
}
