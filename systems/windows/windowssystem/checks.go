package windowssystem

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/windowsapi"
	"github.com/tidemill/tidemill/systems/windows/windowsconfig"
)

// findings are what an operator of the windows system may want to know of before it
// hurts.
func (h *wiring) findings(ctx context.Context, sys *windows.System, s *stores) []preflight.Finding {
	w := h.own
	fs := []preflight.Finding{checkProcessors(w)}
	st, err := sys.Stats(ctx)
	if err != nil {
		fs = append(fs, system.Finding("windows", preflight.Fail, err.Error(), "is its server up? records wait at their source until it is"))
	} else {
		switch text := fmt.Sprintf("%d active, %d ready, %d leased, %d parked", st.Active.Windows, st.Ready.Windows, st.Leased.Windows, st.Parked.Windows); {
		case st.Lost > 0:
			fs = append(fs, system.Finding("windows", preflight.Fail, fmt.Sprintf("%s; %d records are gone that nobody had settled", text, st.Lost), "does Redis evict (maxmemory-policy), was it flushed, was windows.life too short?"))
		case st.Parked.Windows > 0:
			fs = append(fs, system.Finding("windows", preflight.Warn, text, "look at the parked ones: tidemill window list --state parked"))
		default:
			fs = append(fs, system.Finding("windows", preflight.OK, text, ""))
		}
	}
	for _, f := range s.files {
		fs = append(fs, checkFiles(ctx, f))
	}
	if s.index != nil {
		f := system.Finding("search index", preflight.OK, "answers", "")
		if err := s.index.Health(ctx); err != nil {
			f = system.Finding("search index", preflight.Fail, err.Error(), "what was sent waits in its topics until the index is back")
		}
		fs = append(fs, f)
	}
	return fs
}

// checkFiles says which files cannot be read any more: their rows wait for ever.
func checkFiles(ctx context.Context, f windowsapi.FileSource) preflight.Finding {
	check := "files of " + f.Name
	reading, err := f.Reading(ctx)
	if err != nil {
		return system.Finding(check, preflight.Fail, err.Error(), "can the data folder be read?")
	}
	for _, one := range reading {
		if one.Trouble != "" {
			return system.Finding(check, preflight.Warn, fmt.Sprintf("%s cannot be read, and %d of its rows have not ended: %s", one.Name, one.Pending, one.Trouble),
				"put it back as it was, or lose them: tidemill window give-up "+one.Name)
		}
	}
	return system.Finding(check, preflight.OK, fmt.Sprintf("%d are being read", len(reading)), "")
}

func checkProcessors(w *windowsconfig.Settings) preflight.Finding {
	const check = "windows processors"
	plain := 0
	for i := range w.Processors {
		if h := w.Processors[i].HTTP; h != nil && h.AllowHTTP {
			plain++
		}
	}
	if plain > 0 {
		return system.Finding(check, preflight.Warn, fmt.Sprintf("%d of %d may send records unencrypted (allowHttp)", plain, len(w.Processors)), "use https, but for services on this machine")
	}
	return system.Finding(check, preflight.OK, fmt.Sprintf("%d", len(w.Processors)), "")
}
