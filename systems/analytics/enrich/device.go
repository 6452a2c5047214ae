package enrich

import "strings"

// classes are the marks of device types, in lower case. The first type with a mark in the
// string decides. A mark that begins with a letter must begin a word.
var classes = []struct {
	device string
	marks  []string
}{
	{"xr", []string{"oculusbrowser", "quest 2", "quest 3", "quest pro", "wolvic/", "pico neo", "vr safari"}},
	{"wearable", []string{"watch", "watchos", "wear os", "sm-r7", "sm-r8", "sm-r9", "sm-l", "glass "}},
	{"console", []string{"playstation", "nintendo", "xbox", "ouya"}},
	{"smarttv", []string{"smart-tv", "smarttv", "smart tv", "hbbtv", "google tv", "googletv", "android tv", "apple tv", "appletv",
		"tvos", "nettv", "netcast", "netrange", "web0s", "webos.tv", "crkey", "roku", "bravia", "viera", "aquos-tv", "aft",
		"mibox", "mi tv", "mitv", "dtv", "shield android", "inettvbrowser", "philipstv", "tv safari", "tv bro"}},
	{"embedded", []string{"tesla/", "qtcarbrowser"}},
	{"tablet", []string{"ipad", "tablet;", "tablet ", "tablet)", "playbook", "kindle", "kf", "silk/", "sm-t", "sm-x", "sm-p",
		"gt-p", "nexus 7", "nexus 9", "nexus 10", "pixel c ", "galaxy tab", "lenovo tb", "tb-", "mediapad", "matepad", "transformer"}},
	{"mobile", []string{"iphone", "ipod", "windows phone", "windows ce", "windows mobile", "iemobile", "blackberry", "bb10",
		"opera mini", "opera mobi", "symbian", "symbianos", "series40", "series60", "midp", "ucweb", "up.browser", "kaios", "dalvik"}},
}

// deviceClass names the type of device: "desktop" if only a browser is known, empty if not even
// that.
func deviceClass(lower, browser string) string {
	if strings.Contains(lower, "windows nt") && !strings.Contains(lower, "xbox") {
		return desktop(browser) // laptops say "Tablet PC 2.0" and "touch" too
	}
	for _, class := range classes {
		for _, mark := range class.marks {
			if hasWord(lower, mark) {
				return class.device
			}
		}
	}
	switch {
	case isMacLike(lower):
		return "tablet"
	case hasWord(lower, "mobile"):
		return "mobile"
	case hasWord(lower, "android") && !strings.HasPrefix(lower, "mozilla"):
		return "mobile" // an app's own string, without a convention
	case hasWord(lower, "android") && browser != "":
		return "tablet" // browsers on phones say "Mobile", also where the model is frozen to "K"
	}
	return desktop(browser)
}

func desktop(browser string) string {
	if browser == "" {
		return ""
	}
	return "desktop"
}

// hasWord reports whether s contains mark at the beginning of a word: after neither a letter
// nor a hyphen ("T-Mobile" is not a mobile).
func hasWord(s, mark string) bool {
	for at := 0; ; {
		i := strings.Index(s[at:], mark)
		if i < 0 {
			return false
		}
		i += at
		if i == 0 || !isLetter(s[i-1]) && s[i-1] != '-' {
			return true
		}
		at = i + 1
	}
}

// isLetter is for lower-case text.
func isLetter(c byte) bool { return 'a' <= c && c <= 'z' }
