package record

// appendIndexDate appends YYYY-MM-DD in quotes: of an event's day, which has eight digits, or
// of a mention's time, which begins with eight; else null. It does not check that the day
// exists.
func appendIndexDate(dst, v []byte, k Kind) []byte {
	if len(v) < 8 || k == Event && len(v) > 8 || !digits(v) {
		return append(dst, null...)
	}
	dst = append(dst, '"')
	dst = appendDay(dst, v)
	return append(dst, '"')
}

// appendTime appends YYYY-MM-DDThh:mm:ssZ in quotes of a value with n digits, eight (its
// midnight) or fourteen; null unless it is a real date and time.
func appendTime(dst, v []byte, n int) []byte {
	if len(v) != n || !digits(v) || !realDay(v) || n == 14 && !realTime(v[8:]) {
		return append(dst, null...)
	}
	dst = append(dst, '"')
	dst = appendDay(dst, v)
	if n == 8 {
		return append(dst, `T00:00:00Z"`...)
	}
	return append(dst, 'T', v[8], v[9], ':', v[10], v[11], ':', v[12], v[13], 'Z', '"')
}

func appendDay(dst, v []byte) []byte {
	return append(dst, v[0], v[1], v[2], v[3], '-', v[4], v[5], '-', v[6], v[7])
}

// appendPlace appends a point of a search index; null unless both coordinates are there.
func appendPlace(dst, lat, lon []byte) []byte {
	if lat == nil || lon == nil {
		return append(dst, null...)
	}
	dst = append(dst, `{"lat":`...)
	dst = append(dst, lat...)
	dst = append(dst, `,"lon":`...)
	dst = append(dst, lon...)
	return append(dst, '}')
}

func digits(v []byte) bool {
	for _, c := range v {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

func two(v []byte) int { return int(v[0]-'0')*10 + int(v[1]-'0') }

// realDay says whether YYYYMMDD is a day of the Gregorian calendar.
func realDay(v []byte) bool {
	year, month, day := two(v)*100+two(v[2:]), two(v[4:]), two(v[6:])
	if year == 0 || month < 1 || month > 12 || day < 1 {
		return false
	}
	most := [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1]
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		most = 29
	}
	return day <= most
}

// realTime says whether hhmmss is a time of day. There are no leap seconds.
func realTime(v []byte) bool { return two(v) < 24 && two(v[2:]) < 60 && two(v[4:]) < 60 }
