package enrich

import "strings"

// bot is the device of crawlers, monitors, preview makers and tools: no person uses them.
const bot = "bot"

// botMarks are texts, besides "bot", in the strings of crawlers, monitors and preview makers,
// in lower case.
var botMarks = []string{
	"+http", // an address to complain to
	"crawl", "spider", "slurp", "facebookexternalhit", "mediapartners-google", "bingpreview", "googleimageproxy",
	"yahoomailproxy", "lighthouse", "pingdom", "gomezagent", "catchpoint", "ptst/", "datanyze", "scraper", "archiver",
}

// isBot reports whether a string belongs to a crawler, a monitor or a preview maker, even if it
// shows a browser's engine, as many do.
func isBot(lower string) bool {
	for _, mark := range botMarks {
		if strings.Contains(lower, mark) {
			return true
		}
	}
	for at := 0; ; { // "Googlebot/2.1", "bingbot.htm", "robots": the end of a word; but Cubot makes phones
		i := strings.Index(lower[at:], "bot")
		if i < 0 {
			return false
		}
		i += at
		at = i + len("bot")
		rest := strings.TrimPrefix(lower[at:], "s")
		if (rest == "" || !isLetter(rest[0])) && !strings.HasSuffix(lower[:i], "cu") {
			return true
		}
	}
}

// tools are programs and libraries that fetch pages for other programs: the products, in lower
// case, that their strings begin with. Libraries of phone apps (okhttp, Dart, CFNetwork) are
// not tools: a person uses them.
var tools = map[string]bool{
	"curl": true, "libcurl": true, "wget": true, "httpie": true, "python-requests": true, "python-urllib": true, "python-urllib3": true,
	"python-httpx": true, "python": true, "aiohttp": true, "scrapy": true, "go-http-client": true, "go-resty": true, "axios": true,
	"node-fetch": true, "node": true, "undici": true, "got": true, "deno": true, "bun": true, "superagent": true, "java": true,
	"apache-httpclient": true, "jakarta": true, "guzzlehttp": true, "php": true, "symfony": true, "ruby": true, "faraday": true, "rest-client": true,
	"libwww-perl": true, "lwp::simple": true, "reqwest": true, "hyper": true, "restsharp": true, "powershell": true, "postmanruntime": true,
	"insomnia": true, "bruno-runtime": true, "apachebench": true, "k6": true, "wrk": true, "jmeter": true,
}

// tool names the tool of a string.
func tool(ua string) (p product, ok bool) {
	first, _, _ := strings.Cut(ua, " ")
	name, version, _ := strings.Cut(first, "/")
	if !tools[strings.ToLower(name)] {
		return product{}, false
	}
	return product{name, leadingVersion(version)}, true
}

// botName names a bot by the rules if they know it, else by the word that marks it, else by the
// product that the string begins with, else Bot.
func (r *rules) botName(l line) product {
	known := r.userAgent(l)
	if _, browser := browsers[known.Family]; !browser && known.Family != "" && strings.Contains(l.ua, known.Family) {
		return product{cutName(known.Family), joined(known.Major, known.Minor, known.Patch)}
	}
	fields := strings.FieldsFunc(l.ua, func(c rune) bool { return strings.ContainsRune(" ;,()[]+", c) })
	var names []string
	for _, f := range fields {
		if strings.Contains(f, "://") || strings.ContainsAny(f, "@_") || strings.HasPrefix(f, "www.") {
			continue
		}
		name, version, _ := strings.Cut(f, "/")
		if isBot(strings.ToLower(name)) {
			return product{cutName(name), leadingVersion(version)}
		}
		names = append(names, f)
	}
	if len(names) > 0 && len(fields) > 0 && names[0] == fields[0] && !strings.HasPrefix(l.lower, "mozilla") {
		name, version, _ := strings.Cut(names[0], "/")
		return product{cutName(name), leadingVersion(version)}
	}
	if _, browser := browsers[known.Family]; !browser && known.Family != "" {
		return product{cutName(known.Family), joined(known.Major, known.Minor, known.Patch)}
	}
	return product{name: "Bot"}
}

// cutName cuts a name to the length that is kept.
func cutName(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxVersion)], "") }
