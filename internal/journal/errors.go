package journal

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"dibs/internal/claim"
	"dibs/internal/kit/safefile"
)

// retryIn is when to ask again for what could not be stored. It is rough: somebody has to fix
// the cause first.
const retryIn = 5 * time.Second

// failed says what was being done when err happened; it returns nil for nil.
func (j *Journal) failed(err error, doing string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(doing, args...), j.engine.explain(err))
}

func unusable(err error, advice string) *claim.JournalError {
	return &claim.JournalError{RetryAfter: retryIn, Err: fmt.Errorf("%w: %s", err, advice)}
}

// Unmade adds an advice to a file system's error about the journal's file, or one beside it,
// that could not be created or written. If the disk is full, it returns a *claim.JournalError.
func Unmade(err error) error {
	if _, ok := errors.AsType[*safefile.Unsafe](err); ok {
		return fmt.Errorf("%w: %s", err, adviceUnsafe)
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return unusable(err, adviceFull)
	}
	return fmt.Errorf("%w: %s", err, adviceUnwritable)
}
