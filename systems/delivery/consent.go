package delivery

import "github.com/tidemill/tidemill/systems/delivery/partner"

// may is the gate of consent: it says whether partners may have an event at all. What the
// event, or the browser by Sec-GPC, says is always obeyed. Where neither says anything, the
// site's setting decides.
//
//	Sec-GPC or gpc: true    none, where the law of the jurisdiction knows it (CA), or none is named
//	tcf                     purposes 1 (storage) and 7 (measuring ads) are needed
//	usp "1?Y?"              none: the user opted out of sale
//	customConsent           advertising is needed, and nothing may be refused: consent to
//	                        a part is not enough
//	an empty consent        none
func (s *System) may(site string, e *partner.Event, gpcHeader bool) bool {
	consent, present := e.Get("consent").(map[string]any)
	if !present {
		if e.Get("consent") != nil { // something is said, but not what
			return false
		}
		return !gpcHeader && s.now().absent(site)
	}
	if gpc, _ := consent["gpc"].(bool); gpc || gpcHeader {
		if where, _ := consent["jurisdiction"].(string); where == "" || where == "CA" {
			return false
		}
	}
	said := false
	if tcf, ok := consent["tcf"].(map[string]any); ok {
		said = true
		purposes, _ := tcf["purposes"].(map[string]any)
		for _, needed := range [...]string{"1", "7"} {
			if yes, _ := purposes[needed].(bool); !yes {
				return false
			}
		}
	}
	if usp, ok := consent["usp"].(string); ok && len(usp) == 4 {
		said = true
		if usp[2] == 'Y' || usp[2] == 'y' {
			return false
		}
	}
	if custom, ok := consent["customConsent"].(map[string]any); ok {
		said = true
		for _, purpose := range [...]string{"analytics", "marketing", "personalization", "advertising"} {
			yes, named := custom[purpose].(bool)
			if !yes && (named || purpose == "advertising") {
				return false
			}
		}
	}
	if gpc, ok := consent["gpc"].(bool); ok && !gpc && !gpcHeader { // what the browser says counts more
		said = true
	}
	return said
}

// vendorMay says whether an event that names vendors allows this one.
func vendorMay(e *partner.Event, vendor string) bool {
	if vendor == "" {
		return true
	}
	vendors, ok := e.Get("consent", "tcf", "vendorConsent").(map[string]any)
	if !ok {
		return true
	}
	yes, _ := vendors[vendor].(bool)
	return yes
}
