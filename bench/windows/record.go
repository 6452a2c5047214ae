package windows

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// batchID is the batch id of all records.
const batchID = "20250323151500"

// batchName is the window store's name for that batch.
var batchName = record.NewBatch(project.ID("default"), batchID).String()

// records draws events and their mentions as the adapters of the source system send them: two
// mentions for each event, all names written, nulls too. They are the same for every contender.
type records struct {
	rng *rand.Rand
	n   int // of the next
}

func newRecords() *records { return &records{rng: rand.New(rand.NewPCG(1, 2))} }

// drawn is a record and its names.
type drawn struct {
	kind record.Kind
	id   string // globalEventId, the key of incoming records
	key  string // of outgoing records
	body []byte
}

// next draws one.
func (r *records) next() drawn {
	id := strconv.Itoa(1_234_000_000 + r.n/3)
	d := drawn{kind: record.Event, id: id, key: id}
	if r.n%3 == 0 {
		d.body = r.event(id)
	} else {
		d.kind = record.Mention
		url := r.url()
		d.key, d.body = id+"_"+url, r.mention(id, url)
	}
	r.n++
	return d
}

// take draws so many.
func (r *records) take(n int) []drawn {
	all := make([]drawn, n)
	for i := range all {
		all[i] = r.next()
	}
	return all
}

var (
	sites  = []string{"www.reuters.com", "www.bbc.co.uk", "timesofindia.indiatimes.com", "www.dailymail.co.uk", "allafrica.com", "menafn.com"}
	words  = []string{"minister", "talks", "border", "trade", "election", "court", "storm", "market", "police", "summit", "budget", "strike"}
	actors = []string{"UNITED STATES", "GERMANY", "POLICE", "MINISTER", "NIGERIA", "PRESIDENT", "COMPANY", "SCHOOL"}
	states = []string{"USA", "DEU", "NGA", "IND", "GBR", "RUS", "CHN", "BRA"}
	places = []string{"Berlin, Berlin, Germany", "Lagos, Lagos, Nigeria", "Washington, District of Columbia, United States", "New Delhi, Delhi, India", "London, London, City of, United Kingdom"}
)

func (r *records) of(list []string) string { return list[r.rng.IntN(len(list))] }

func (r *records) url() string {
	return fmt.Sprintf("https://%s/%s/2025/03/23/%s-%s-%s-%s-%08d.html", r.of(sites), r.of(words), r.of(words), r.of(words), r.of(words), r.of(words), r.rng.IntN(1e8))
}

// text is a JSON text, or null in so many of ten cases.
func (r *records) text(nulls int, list []string) string {
	if r.rng.IntN(10) < nulls {
		return "null"
	}
	return `"` + r.of(list) + `"`
}

func (r *records) event(id string) []byte {
	b := make([]byte, 0, 2048)
	b = fmt.Appendf(b, `{"globalEventId":%s,"day":20250323,"monthYear":202503,"year":2025,"fractionDate":2025.2247`, id)
	for _, who := range []string{"actor1", "actor2"} {
		b = fmt.Appendf(b, `,"%[1]sCode":%[2]s,"%[1]sName":%[3]s,"%[1]sCountryCode":%[4]s,"%[1]sKnownGroupCode":null,"%[1]sEthnicCode":null,"%[1]sReligion1Code":null,`+
			`"%[1]sReligion2Code":null,"%[1]sType1Code":%[5]s,"%[1]sType2Code":null,"%[1]sType3Code":null`,
			who, r.text(2, states), r.text(2, actors), r.text(3, states), r.text(6, []string{"GOV", "COP", "BUS", "EDU"}))
	}
	code := 10 + r.rng.IntN(190)
	b = fmt.Appendf(b, `,"isRootEvent":%d,"eventCode":"%03d","eventBaseCode":"%03d","eventRootCode":"%02d","quadClass":%d,"goldsteinScale":%.1f,"numMentions":%d,"numSources":%d,"numArticles":%d,"avgTone":%.14f`,
		r.rng.IntN(2), code, code, code/10, 1+r.rng.IntN(4), r.rng.Float64()*20-10, 1+r.rng.IntN(20), 1+r.rng.IntN(3), 1+r.rng.IntN(20), r.rng.Float64()*20-10)
	for _, where := range []string{"actor1Geo", "actor2Geo", "actionGeo"} {
		b = fmt.Appendf(b, `,"%[1]sType":%[2]d,"%[1]sFullName":"%[3]s","%[1]sCountryCode":"%02[4]X","%[1]sAdm1Code":"%02[4]X%02[5]d","%[1]sAdm2Code":null,"%[1]sLat":%.4[6]f,"%[1]sLong":%.4[7]f,"%[1]sFeatureId":"-%[8]d"`,
			where, 1+r.rng.IntN(5), r.of(places), r.rng.IntN(256), r.rng.IntN(100), r.rng.Float64()*180-90, r.rng.Float64()*360-180, r.rng.IntN(3_000_000))
	}
	return fmt.Appendf(b, `,"dateAdded":20250323151500,"sourceUrl":"%s"}`, r.url())
}

func (r *records) mention(id, url string) []byte {
	return fmt.Appendf(make([]byte, 0, 640), `{"globalEventId":%s,"eventTimeDate":20250323151500,"mentionTimeDate":20250323151500,"mentionType":1,"mentionSourceName":"%s","mentionIdentifier":"%s",`+
		`"sentenceId":%d,"actor1CharOffset":%d,"actor2CharOffset":%d,"actionCharOffset":%d,"inRawText":%d,"confidence":%d,"mentionDocLen":%d,"mentionDocTone":%.14f,"mentionDocTranslationInfo":null}`,
		id, r.of(sites), url, 1+r.rng.IntN(20), r.rng.IntN(3000)-1, r.rng.IntN(3000)-1, r.rng.IntN(3000), r.rng.IntN(2), 10*(1+r.rng.IntN(10)), r.rng.IntN(9000), r.rng.Float64()*20-10)
}

// out is the product's outgoing form of a record.
func (d *drawn) out() ([]byte, error) {
	var r record.Record
	if err := record.Decode(d.kind, d.body, &r); err != nil {
		return nil, err
	}
	return r.AppendOut(nil), nil
}
