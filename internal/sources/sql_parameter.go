package sources

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// asText is a parameter as text, which a database reads as what it takes the parameter for.
// nil is null.
func asText(param any) ([]byte, error) {
	switch v := param.(type) {
	case nil:
		return nil, nil
	case bool:
		return strconv.AppendBool(nil, v), nil
	case int:
		return strconv.AppendInt(nil, int64(v), 10), nil
	case float64:
		return strconv.AppendFloat(nil, v, 'f', -1, 64), nil
	case json.Number:
		return []byte(v), nil
	case string:
		return []byte(v), nil
	case time.Time:
		return v.UTC().AppendFormat(nil, time.RFC3339Nano), nil
	}
	return nil, fmt.Errorf("a %T can't be a parameter; text, a number, true or false, or an instant can", param)
}
