package web

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// language is one that the page has texts in: its place in a row of texts. What the batch system itself says (states, reasons,
// refusals) stays as the commands say it.
type language int

const (
	english language = iota
	japanese
	korean
	languages int = iota
)

// tags are as browsers say them; names are in the languages themselves.
var (
	tags          = [languages]string{"en", "ja", "ko"}
	languageNames = [languages]string{"English", "日本語", "한국어"}
)

// Tag is for the lang attribute.
func (l language) Tag() string { return tags[l] }

// text is a text of the table; the key where there is none, which a test finds.
func (l language) text(key string) string {
	if row, ok := texts[key]; ok {
		return row[l]
	}
	return key
}

const languageCookie = "fairslice-language"

// language is what the user has chosen (?lang=, which is remembered), or else what the browser asks for.
func (s *Server) language(w http.ResponseWriter, r *http.Request) language {
	if i := slices.Index(tags[:], r.URL.Query().Get("lang")); i >= 0 {
		http.SetCookie(w, &http.Cookie{Name: languageCookie, Value: tags[i], Path: "/", MaxAge: int((365 * 24 * time.Hour).Seconds()),
			HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode})
		return language(i)
	}
	if i := slices.Index(tags[:], cookie(r, languageCookie)); i >= 0 {
		return language(i)
	}
	return accepted(r.Header.Get("Accept-Language"))
}

// accepted reads Accept-Language (RFC 9110, 12.5.4): the language that we have with the greatest weight, of equal ones the
// first; English where there is none. What is malformed is passed over.
func accepted(header string) language {
	best, weight := english, 0.0
	for i, part := range strings.Split(header, ",") {
		if i >= 50 {
			break
		}
		tag, parameter, _ := strings.Cut(part, ";")
		q := 1.0
		if name, value, ok := strings.Cut(strings.TrimSpace(parameter), "="); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if strings.TrimSpace(name) != "q" || err != nil || !(v >= 0 && v <= 1) {
				continue
			}
			q = v
		}
		tag, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(tag)), "-")
		if l := slices.Index(tags[:], tag); l >= 0 && q > weight {
			best, weight = language(l), q
		}
	}
	return best
}
