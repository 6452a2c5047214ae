package enrich

import (
	"cmp"
	"strings"
)

// browsers are the families of uap-core that are browsers, with their names in ua-parser-js 2.
// A family that is not listed is either not a browser (libraries, mail programs, apps) or
// Safari. The engine in its string decides, see embedded.
var browsers = map[string]string{
	"Chrome": "Chrome", "Chrome Mobile": "Mobile Chrome", "Chrome Mobile iOS": "Mobile Chrome",
	"Chrome Mobile WebView": "Chrome WebView", "HeadlessChrome": "Chrome Headless", "Chromium": "Chromium",
	"Firefox": "Firefox", "Firefox Beta": "Firefox", "Firefox Alpha": "Firefox",
	"Firefox Mobile": "Mobile Firefox", "Firefox iOS": "Mobile Firefox", "Firefox Focus": "Firefox Focus", "Klar": "Klar",
	"Edge": "Edge", "Edge Mobile": "Edge", "IE": "IE", "IE Large Screen": "IE", "IE Mobile": "IEMobile",
	"Opera": "Opera", "Opera Mini": "Opera Mini", "Opera Tablet": "Opera Tablet", "Opera Touch": "Opera Touch",
	"Opera Coast": "Opera Coast", "Opera Neon": "Opera Neon", "Opera GX": "Opera GX", "Opera Mobile": "Opera Mobi",
	"Samsung Internet": "Samsung Internet", "Huawei Browser": "Huawei Browser", "MiuiBrowser": "MIUI Browser",
	"VivoBrowser": "Vivo Browser", "HiBrowser": "HiBrowser", "HeyTapBrowser": "HeyTap",
	"UC Browser": "UCBrowser", "Yandex Browser": "Yandex", "Amazon Silk": "Silk", "Kindle": "Kindle",
	"QQ Browser": "QQBrowser", "QQ Browser Mobile": "QQBrowser", "QQ Browser Mini": "QQBrowser",
	"Baidu Browser": "Baidu", "Baidu Explorer": "Baidu", "Sogou Explorer": "Sogou Explorer", "Quark": "Quark",
	"Brave": "Brave", "Vivaldi": "Vivaldi", "Whale": "Whale", "Coc Coc": "Coc Coc", "Maxthon": "Maxthon",
	"DuckDuckGo": "DuckDuckGo", "DuckDuckGo Mobile": "DuckDuckGo", "Ecosia Android": "Ecosia", "Ecosia iOS": "Ecosia",
	"Aloha Browser": "Aloha", "Avast Secure Browser": "Avast Secure Browser", "AVG": "AVG Secure Browser",
	"Puffin": "Puffin", "Dolphin": "Dolphin", "Dolfin": "Dolphin", "Oculus Browser": "Oculus Browser",
	"Sailfish Browser": "Sailfish Browser", "Tizen Browser": "Tizen Browser", "Electron": "Electron",
	"Iron": "Iron", "Comodo Dragon": "Dragon", "Dragon": "Dragon", "Sleipnir": "Sleipnir", "Otter": "Otter",
	"Midori": "Midori", "QupZilla": "QupZilla", "Falkon": "Falkon", "Epiphany": "Epiphany", "Konqueror": "Konqueror",
	"qutebrowser": "qutebrowser", "Ladybird": "Ladybird", "LibreWolf": "LibreWolf", "Waterfox": "Waterfox", "Pale Moon": "PaleMoon",
	"Basilisk": "Basilisk", "SeaMonkey": "SeaMonkey", "IceCat": "IceCat", "Iceweasel": "IceWeasel", "K-Meleon": "K-Meleon",
	"Camino": "Camino", "OmniWeb": "OmniWeb", "iCab": "iCab", "Netscape": "Netscape", "Lynx": "Lynx", "Links": "Links",
	"PhantomJS": "PhantomJS", "NetFront": "NetFront", "Obigo": "Obigo", "Polaris": "Polaris", "Jasmine": "Jasmine",
	"UP.Browser": "UP.Browser", "Ovi Browser": "OviBrowser", "Nokia Browser": "Nokia Browser", "Skyfire": "Skyfire",
	"BOLT": "Bolt", "Rekonq": "rekonq", "LuaKit": "Luakit", "Lunascape": "Lunascape", "Swiftfox": "Swiftfox",
	"Facebook": "Facebook", "Facebook Messenger": "Facebook", "Instagram": "Instagram", "Twitter": "Twitter",
	"Snapchat": "Snapchat", "LINE": "Line",
}

// inApp are browsers inside apps that uap-core does not tell from their engine: the text (lower
// case) before their version, and their name.
var inApp = []struct{ mark, name string }{
	{"micromessenger/", "WeChat"},
	{"musical_ly_", "TikTok"},
	{"trill_", "TikTok"},
	{"[linkedinapp]/", "LinkedIn"},
	{"kakaotalk ", "KakaoTalk"},
	{"tesla/", "Tesla"},
	{"oculusbrowser/", "Oculus Browser"},
	{"gsa/", "GSA"},
	{"brave/", "Brave"},
	{"ddg/", "DuckDuckGo"},
}

// maxVersion is how many bytes of a version are kept, the same as from SDKs.
const maxVersion = 50

// browser names the browser and its version.
func (r *rules) browser(l line) product {
	for _, app := range inApp {
		if v := versionAfter(l, app.mark); v != "" {
			return product{app.name, v}
		}
	}
	ua := r.userAgent(l)
	version := joined(ua.Major, ua.Minor, ua.Patch)
	name, known := browsers[ua.Family]
	switch {
	case ua.Family == "Android": // the browser of Android up to 4.3, or any app
		if v := versionAfter(l, "version/"); v != "" && strings.Contains(l.lower, "applewebkit") {
			return product{"Android Browser", v}
		}
		return embedded(l)
	case !known:
		return embedded(l)
	case name == "Opera Mobi" && strings.Contains(l.lower, "opr/"):
		name = "Opera"
	case name == "IE" && ua.Minor == "":
		version = joined(ua.Major, "0")
	}
	return product{name, whole(l.ua, version)}
}

// embedded names the engine of a string without a browser of its own: apps show the engine that
// they contain.
func embedded(l line) product {
	if v := versionAfter(l, "electron/"); v != "" {
		return product{"Electron", v}
	}
	if v := versionAfter(l, "chrome/"); v != "" {
		switch {
		case strings.Contains(l.lower, "; wv)"):
			return product{"Chrome WebView", v}
		case hasWord(l.lower, "mobile"):
			return product{"Mobile Chrome", v}
		}
		return product{"Chrome", v}
	}
	if v := versionAfter(l, "opera/"); v != "" { // on televisions; since version 10 the true version is elsewhere
		return product{"Opera", cmp.Or(versionAfter(l, "version/"), v)}
	}
	return safari(l)
}

// safari tells Safari, its mobile edition and bare WebKit apart.
func safari(l line) product {
	webkit := versionAfter(l, "applewebkit/")
	if webkit == "" {
		return product{}
	}
	v := versionAfter(l, "version/")
	switch {
	case !strings.Contains(l.lower, "safari"):
		return product{"WebKit", webkit}
	case hasWord(l.lower, "mobile"):
		return product{"Mobile Safari", v}
	}
	return product{"Safari", v}
}

// joined puts the parts of a version together, up to the first that is missing or, after the
// first ("XP", "Vista"), not a number ("2.1-update1").
func joined(parts ...string) string {
	for i, p := range parts {
		if p == "" || i > 0 && !versionByte(p[0]) {
			parts = parts[:i]
			break
		}
	}
	v := strings.Join(parts, ".")
	return v[:min(len(v), maxVersion)]
}

// whole completes a version of three parts, all that the rules keep, from the string:
// 124.0.6367 → 124.0.6367.82.
func whole(ua, version string) string {
	if strings.Count(version, ".") < 2 {
		return version
	}
	for at := 0; ; {
		i := strings.Index(ua[at:], version)
		if i < 0 {
			return version
		}
		i += at
		if i == 0 || !versionByte(ua[i-1]) {
			return leadingVersion(ua[i:])
		}
		at = i + 1
	}
}

// versionAfter returns the version behind mark, which is in lower case.
func versionAfter(l line, mark string) string {
	if !l.ascii {
		l.ua = l.lower
	}
	for at := 0; ; {
		i := strings.Index(l.lower[at:], mark)
		if i < 0 {
			return ""
		}
		i += at
		at = i + len(mark)
		if i > 0 && isLetter(mark[0]) && isLetter(l.lower[i-1]) {
			continue // the end of another word
		}
		if v := leadingVersion(l.ua[at:]); v != "" {
			return v
		}
	}
}

// leadingVersion returns the digits and dots that s begins with, at most maxVersion.
func leadingVersion(s string) string {
	n := 0
	for n < len(s) && n < maxVersion && versionByte(s[n]) {
		n++
	}
	return strings.Trim(s[:n], ".")
}

func versionByte(c byte) bool { return c == '.' || '0' <= c && c <= '9' }
