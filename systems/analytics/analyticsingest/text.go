package analyticsingest

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// cut returns at most the first 255 bytes of s, as UTF-8.
func cut(s string) string {
	if len(s) > 255 {
		s = s[:255]
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

func kilobytes(n int) string { return strconv.Itoa(n>>10) + " KB" }

// encodeUUID writes the usual notation of an id.
func encodeUUID(to *[36]byte, id uuid.UUID) {
	hex.Encode(to[:8], id[:4])
	to[8] = '-'
	hex.Encode(to[9:13], id[4:6])
	to[13] = '-'
	hex.Encode(to[14:18], id[6:8])
	to[18] = '-'
	hex.Encode(to[19:23], id[8:10])
	to[23] = '-'
	hex.Encode(to[24:], id[10:])
}
