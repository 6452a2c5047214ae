package enrich

import "strings"

// systems map uap-core's names of operating systems to those of ua-parser-js 2. An unlisted one
// (mostly a make of television) is Tizen or Linux if the string says so.
var systems = map[string]string{
	"Windows": "Windows", "Windows Phone": "Windows Phone", "Windows Mobile": "Windows Mobile",
	"Mac OS X": "macOS", "Mac OS": "macOS", "iOS": "iOS", "WatchOS": "watchOS", "tvOS": "tvOS", "ATV OS X": "tvOS",
	"Android": "Android", "Chrome OS": "Chrome OS", "Fuchsia": "Fuchsia", "KaiOS": "KaiOS", "Firefox OS": "Firefox OS",
	"Chromecast Android": "Chromecast Android", "Chromecast Fuchsia": "Chromecast Fuchsia",
	"Chromecast Linux": "Chromecast Linux", "Chromecast SmartSpeaker": "Chromecast SmartSpeaker",
	"Linux": "Linux", "Ubuntu": "Ubuntu", "Kubuntu": "Kubuntu", "Debian": "Debian", "Fedora": "Fedora", "Red Hat": "RedHat",
	"SUSE": "SUSE", "Gentoo": "Gentoo", "Slackware": "Slackware", "CentOS": "CentOS", "Mandriva": "Mandriva",
	"Arch Linux": "Arch", "Linux Mint": "Mint", "Puppy": "Linux", "Mageia": "Mageia", "PCLinuxOS": "PCLinuxOS",
	"FreeBSD": "FreeBSD", "OpenBSD": "OpenBSD", "NetBSD": "NetBSD", "DragonFly BSD": "DragonFly", "BSD": "BSD", "Solaris": "Solaris",
	"BlackBerry OS": "BlackBerry", "BlackBerry Tablet OS": "RIM Tablet OS", "webOS": "webOS", "Web0S": "webOS",
	"Tizen": "Tizen", "Bada": "Bada", "MeeGo": "MeeGo", "Maemo": "Maemo", "Sailfish": "Sailfish", "SerenityOS": "SerenityOS",
	"Symbian OS": "Symbian", "Symbian^3": "Symbian", "Symbian^3 Anna": "Symbian", "Symbian^3 Belle": "Symbian",
	"Nokia Series 40": "Series40",
}

// system names the operating system and its version.
func (r *rules) system(l line) product {
	switch {
	case strings.Contains(l.lower, "playstation"):
		return product{"PlayStation", leadingWord(l, "playstation ")}
	case strings.Contains(l.lower, "nintendo"):
		return product{"Nintendo", leadingWord(l, "nintendo ")}
	case strings.Contains(l.lower, "xbox"):
		return product{name: "Xbox"}
	case strings.Contains(l.lower, "harmonyos"): // also calls itself Android
		return product{"HarmonyOS", versionAfter(l, "harmonyos ")}
	case strings.HasPrefix(l.lower, "roku"):
		return product{} // its firmware has no name, and uap-core calls it a Mac
	case strings.Contains(l.lower, "watchos "):
		return product{"watchOS", underscored(l, "watchos ")}
	case isMacLike(l.lower):
		return product{name: "iOS"} // its version is a Mac's
	}
	os := r.operatingSystem(l)
	name := systems[os.Family]
	version := joined(os.Major, os.Minor, os.Patch, os.PatchMinor)
	switch {
	case name == "" && strings.Contains(l.lower, "tizen"):
		return product{name: "Tizen"}
	case name == "" && strings.Contains(l.lower, "linux"):
		return product{name: "Linux"}
	case name == "":
		return product{}
	case name == "Windows" && os.Major == "CE":
		return product{name: "Windows CE"}
	case name == "Windows" && strings.HasPrefix(os.Major, "RT"):
		return product{"Windows RT", strings.TrimSpace(strings.TrimPrefix(version, "RT"))}
	case name == "Linux": // the version there is the kernel's, or the processor
		version = ""
	case name == "Windows" && version == "NT": // an edition, not a version
		version = ""
	}
	return product{name, version}
}

// isMacLike reports whether a string that claims a Mac comes from an iPad: Chrome, Firefox and
// Edge for iOS request desktop pages in that way. Safari's own string on an iPad equals a
// Mac's, and counts as one.
func isMacLike(lower string) bool {
	return strings.Contains(lower, "macintosh") &&
		(strings.Contains(lower, "crios/") || strings.Contains(lower, "fxios/") || strings.Contains(lower, "edgios/"))
}

// leadingWord returns the letters and digits behind mark: "playstation 5/2.26" → "5".
func leadingWord(l line, mark string) string {
	_, s, found := strings.Cut(l.lower, mark)
	if !found || !l.ascii {
		return ""
	}
	s = l.ua[len(l.ua)-len(s):]
	n := 0
	for n < len(s) && n < 20 && (isLetter(s[n]|0x20) || '0' <= s[n] && s[n] <= '9') {
		n++
	}
	return s[:n]
}

// underscored returns the version behind mark that is written 10_4_1.
func underscored(l line, mark string) string {
	_, s, _ := strings.Cut(l.lower, mark)
	n := 0
	for n < len(s) && n < maxVersion && (versionByte(s[n]) || s[n] == '_') {
		n++
	}
	return strings.Trim(strings.ReplaceAll(s[:n], "_", "."), ".")
}
