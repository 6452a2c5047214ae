// Package delivery is the system that brings conversions and tracking events to ad partners:
// accepted once, queued by urgency, delivered to each partner that they are for, with a clear
// fate for each.
//
//	ingest API → ingest.high, .standard, .low → route → s2s.<partner> → partner
//	                                              ↘ skipped: no_route, consent    ↘ dead letters → replay
package delivery
