package rules

import (
	"context"
	"log/slog"

	"github.com/google/uuid"
)

// Damaged logs persons whose registers cannot be read.
func Damaged(ctx context.Context, log *slog.Logger, ids []uuid.UUID) {
	for _, id := range ids {
		// Logged when the store has what is no registers of a person: something wrote there that is not us,
		// or the disk is bad. The properties go on without the times at which they were set.
		// To do: check disk and database; restore it from a backup if there is one.
		log.ErrorContext(ctx, "the registers of a person are damaged; its properties go on without their times", "person", id)
	}
}
