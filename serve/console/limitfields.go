package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	times "github.com/tidemill/tidemill/internal/when"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/state/queue"
)

// limitField is a field of the form of settings.
type limitField struct {
	page.Input
	show func(*queue.Settings) string
	read func(s *queue.Settings, text string) error // empty: it is taken away
}

// limitGroup is fields that belong together.
type limitGroup struct {
	legend string
	folded bool
	fields []limitField
}

var limitGroups = []limitGroup{
	{"All jobs of the queue together", false, limitFields("", func(s *queue.Settings) *queue.Limit { return &s.Limit })},
	{"Each tenant that has no limit of its own", false, limitFields("tenant_", func(s *queue.Settings) *queue.Limit { return &s.Tenant })},
	{"Tenants with a limit of their own", true, []limitField{{
		page.Input{Name: "tenants", Label: "A tenant in a line", Lines: 3, Help: "shop: 50 a second, 3 at once. Without a number it has no limit."},
		func(s *queue.Settings) string { return tenantLimits(s.Tenants) }, readTenants}}},
	{"Each key of a tenant", true, limitFields("key_", func(s *queue.Settings) *queue.Limit { return &s.Key })},
	{"Who takes turns", true, []limitField{
		{page.Input{Name: "fair", Label: "Within a priority", Choices: []string{turns[queue.ByTenant], turns[queue.ByKey], turns[queue.Unfair]}}, func(s *queue.Settings) string { return turns[s.Fair] }, readTurns},
		{page.Input{Name: "weights", Label: "Weights of priorities, one in a line", Lines: 3, Help: "3: 64 gives priority 3 a share of 64. Without one it has 4 times that of the priority below it."},
			func(s *queue.Settings) string { return weightLines(s.Weights) }, readWeights}}},
	{"What it holds and keeps", true, slices.Concat([]limitField{
		{page.Input{Name: "max", Label: "Jobs at most", Mode: "numeric", Help: "Empty: as many as the store allows."}, func(s *queue.Settings) string { return count(s.Max) },
			func(s *queue.Settings, text string) (err error) { s.Max, err = readCount(text); return err }}},
		keepFields("completed", "Completed jobs", func(s *queue.Settings) *queue.Keep { return &s.Completed }),
		keepFields("failed", "Failed jobs", func(s *queue.Settings) *queue.Keep { return &s.Failed }))},
}

// turns are the words for who takes turns.
var turns = map[queue.Fairness]string{queue.ByTenant: "tenants take turns", queue.ByKey: "tenants, and within a tenant its keys", queue.Unfair: "nobody: first in, first out"}

func count(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func decimal(n float64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

func readCount(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("%.60q is no count: write a whole number over 0, or nothing", text)
	}
	return n, nil
}

func readRate(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0 && n <= queue.MaxRate) {
		return 0, fmt.Errorf("%.60q is no rate: write a number over 0 and up to a million, or nothing", text)
	}
	return n, nil
}

func limitFields(prefix string, of func(*queue.Settings) *queue.Limit) []limitField {
	return []limitField{
		{page.Input{Name: prefix + "rate", Label: "A second", Mode: "decimal"}, func(s *queue.Settings) string { return decimal(of(s).PerSecond) },
			func(s *queue.Settings, text string) (err error) { of(s).PerSecond, err = readRate(text); return err }},
		{page.Input{Name: prefix + "at_once", Label: "At once", Mode: "numeric"}, func(s *queue.Settings) string { return count(of(s).AtOnce) },
			func(s *queue.Settings, text string) (err error) { of(s).AtOnce, err = readCount(text); return err }},
	}
}

func keepFields(name, label string, of func(*queue.Settings) *queue.Keep) []limitField {
	return []limitField{
		{page.Input{Name: name, Label: label + " kept", Mode: "numeric", Help: "Empty: none."}, func(s *queue.Settings) string { return count(of(s).Count) },
			func(s *queue.Settings, text string) (err error) { of(s).Count, err = readCount(text); return err }},
		{page.Input{Name: name + "_for", Label: label + " kept for", Help: "12h, 7d. Empty: for any time."}, func(s *queue.Settings) string { return ageText(of(s).Age) },
			func(s *queue.Settings, text string) (err error) { of(s).Age, err = readAge(text); return err }},
	}
}

func ageText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func readAge(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	return times.Duration(text)
}

// tenantLimits are lines that readTenants reads.
func tenantLimits(all map[string]queue.Limit) string {
	var lines []string
	for _, tenant := range slices.Sorted(maps.Keys(all)) {
		var words []string
		if l := all[tenant]; l.PerSecond > 0 {
			words = append(words, decimal(l.PerSecond)+" a second")
		}
		if l := all[tenant]; l.AtOnce > 0 {
			words = append(words, count(l.AtOnce)+" at once")
		}
		lines = append(lines, strings.TrimSpace(quotedValue(tenant)+": "+strings.Join(words, ", ")))
	}
	return strings.Join(lines, "\n")
}

func readTenants(s *queue.Settings, text string) error {
	s.Tenants = map[string]queue.Limit{}
	for _, line := range lines(text) {
		i := strings.LastIndexByte(line, ':')
		if i <= 0 {
			return fmt.Errorf("%.120q is no limit of a tenant: write TENANT: 50 a second, 3 at once", line)
		}
		tenant := strings.TrimSpace(line[:i])
		if strings.HasPrefix(tenant, `"`) {
			if err := json.Unmarshal([]byte(tenant), &tenant); err != nil {
				return fmt.Errorf("%.120s: a name that begins with a quotation mark is a text of JSON", tenant)
			}
		}
		var l queue.Limit
		for _, part := range strings.Split(line[i+1:], ",") {
			part = strings.TrimSpace(part)
			rate, isRate := strings.CutSuffix(part, " a second")
			atOnce, isCount := strings.CutSuffix(part, " at once")
			var err error
			switch {
			case part == "":
			case isRate:
				l.PerSecond, err = readRate(strings.TrimSpace(rate))
			case isCount:
				l.AtOnce, err = readCount(strings.TrimSpace(atOnce))
			default:
				err = fmt.Errorf("%.60q is no limit: write 50 a second, 3 at once, or both with a comma between them", part)
			}
			if err != nil {
				return fmt.Errorf("tenant %.60s: %w", tenant, err)
			}
		}
		s.Tenants[tenant] = l
	}
	return nil
}

func readTurns(s *queue.Settings, text string) error {
	for fair, words := range turns {
		if words == text {
			s.Fair = fair
			return nil
		}
	}
	return fmt.Errorf("%.60q is none of these: %s", text, strings.Join(slices.Sorted(maps.Values(turns)), "; "))
}

func weightLines(all map[uint8]int) string {
	var lines []string
	for _, p := range slices.Sorted(maps.Keys(all)) {
		lines = append(lines, fmt.Sprintf("%d: %d", p, all[p]))
	}
	return strings.Join(lines, "\n")
}

func readWeights(s *queue.Settings, text string) error {
	s.Weights = map[uint8]int{}
	for _, line := range lines(text) {
		priority, weight, _ := strings.Cut(line, ":")
		p, err := strconv.ParseUint(strings.TrimSpace(priority), 10, 8)
		n, err2 := strconv.Atoi(strings.TrimSpace(weight))
		if cmp.Or(err, err2) != nil || n < 1 || n > queue.MaxWeight {
			return fmt.Errorf("%.60q is no weight of a priority: write PRIORITY: WEIGHT, such as 3: 64, with a weight from 1 to %d", line, queue.MaxWeight)
		}
		s.Weights[uint8(p)] = n
	}
	return nil
}
