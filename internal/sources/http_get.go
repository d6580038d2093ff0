package sources

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"deadman/checks/lookup"
)

// errPath is the error of a key without a valid path.
var errPath = errors.New("path")

// body returns the JSON object in the body of a response.
func body(res *http.Response) ([]byte, error) {
	if res.ContentLength > lookup.MaxValue {
		return nil, errTooLong
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, lookup.MaxValue+1))
	if err != nil {
		return nil, serviceError{unanswered(err)}
	}
	return object(b)
}

// statusError returns the error of an unsuccessful status.
func statusError(res *http.Response, alone bool) error {
	code := res.StatusCode
	text := fmt.Sprintf("the response status is %d %s", code, http.StatusText(code))
	switch {
	case code == http.StatusInternalServerError && alone:
		return errors.New(text)
	case code >= 500, code == http.StatusTooManyRequests:
		return serviceError{errors.New(text)}
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		return serviceError{fmt.Errorf("%s; check the source's headers", text)}
	case code == http.StatusNotFound, code == http.StatusGone:
		return fmt.Errorf("%s; if it means that the entity does not exist, write absent: [%d] in the lookup", text, code)
	case code >= 300 && code < 400:
		return fmt.Errorf("%s%s; redirects are not followed; configure the final address in the source", text, redirectHost(res))
	}
	return errors.New(text)
}

// redirectHost returns the host of a redirect, without the path, which may contain secrets.
func redirectHost(res *http.Response) string {
	to, err := res.Location()
	if err != nil {
		return ""
	}
	return fmt.Sprintf(", to %s://%s", to.Scheme, to.Host)
}
