package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// set stores a value from the file or the environment. Values from the file must have the right
// type; those from the environment are strings.
func (f field) set(raw any, fromEnvironment bool) error {
	text, isText := raw.(string)
	spelled := fromEnvironment && isText
	switch target := f.target.(type) {
	case *string:
		return setText(target, raw)
	case *Override:
		return setText(target, raw)
	case *Review:
		return setText(target, raw)
	case *Secret:
		if !isText {
			return errors.New("want text: put it in quotes") // without repeating it
		}
		*target = Secret(text)
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("want a duration such as 90s or 30m, got %v", raw)
		}
		*target = d
	case *bool:
		b, ok := raw.(bool)
		if spelled {
			var err error
			b, err = strconv.ParseBool(text)
			ok = err == nil
		}
		if !ok {
			return fmt.Errorf("want true or false, got %v", raw)
		}
		*target = b
	case *int:
		n, ok := raw.(int)
		if spelled {
			var err error
			n, err = strconv.Atoi(text)
			ok = err == nil
		}
		if !ok {
			return fmt.Errorf("want a whole number, got %v", raw)
		}
		*target = n
	case *float64:
		n, ok := asNumber(raw)
		if spelled {
			var err error
			n, err = strconv.ParseFloat(text, 64)
			ok = err == nil
		}
		if !ok {
			return fmt.Errorf("want a number, got %v", raw)
		}
		*target = n
	case *Form:
		return setText(target, raw)
	case *[]string:
		return setList(target, raw, spelled, asText[string])
	case *[]Notice:
		return setList(target, raw, spelled, asText[Notice])
	case *[]Agent:
		return setList(target, raw, spelled, asAgent)
	case *[]Receiver:
		return setList(target, raw, spelled, asReceiver)
	default:
		panic(fmt.Sprintf("config: %s has type %T, which no value can be read into", f.key, f.target))
	}
	return nil
}

func setText[T ~string](target *T, raw any) error {
	text, ok := raw.(string)
	if !ok {
		return fmt.Errorf("want text, got %v: if that is meant, put it in quotes", raw)
	}
	*target = T(text)
	return nil
}

func asText[T ~string](raw any) (text T, err error) {
	err = setText(&text, raw)
	return text, err
}

// setList stores a list whose items are read by as.
func setList[T any](target *[]T, raw any, spelled bool, as func(raw any) (T, error)) error {
	items, err := asList(raw, spelled)
	if err != nil {
		return err
	}
	*target = make([]T, len(items))
	for i, item := range items {
		if (*target)[i], err = as(item); err != nil {
			return err
		}
	}
	return nil
}

func asNumber(raw any) (float64, bool) {
	switch n := raw.(type) {
	case int:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// asList accepts a list, or one text for a list of one. A list in the environment (spelled) has
// commas between its items, or is a JSON array.
func asList(raw any, spelled bool) ([]any, error) {
	switch raw := raw.(type) {
	case []any:
		return raw, nil
	case string:
		if !spelled {
			return []any{raw}, nil
		}
		if strings.HasPrefix(strings.TrimSpace(raw), "[") {
			var items []any
			if err := json.Unmarshal([]byte(raw), &items); err != nil {
				return nil, fmt.Errorf("want names with commas between them or a JSON array: %w", err)
			}
			return items, nil
		}
		var items []any
		for name := range strings.SplitSeq(raw, ",") {
			items = append(items, strings.TrimSpace(name))
		}
		return items, nil
	case map[string]any: // there may be a secret in it
		return nil, errors.New("want a list, got a section")
	}
	return nil, fmt.Errorf("want a list, got %v", raw)
}

// mostUSD is the largest limit of money.
const mostUSD = 1_000_000

// asAgent accepts a name, or a section {name, uids, notion_user, lead, max_per_agent, max_per_day,
// max_usd_per_day}.
func asAgent(raw any) (Agent, error) {
	section, ok := raw.(map[string]any)
	if !ok {
		var a Agent
		err := setText(&a.Name, raw)
		return a, err
	}
	var a Agent
	for _, key := range slices.Sorted(maps.Keys(section)) {
		var err error
		switch value := section[key]; key {
		case "name":
			err = setText(&a.Name, value)
		case "notion_user":
			err = setText(&a.NotionUser, value)
		case "lead":
			var ok bool
			if a.Lead, ok = value.(bool); !ok {
				err = fmt.Errorf("want true or false, got %v", value)
			}
		case "max_per_agent":
			var n int
			n, err = asMost(value)
			a.MaxPerAgent = &n
		case "max_per_day":
			a.MaxPerDay, err = asMost(value)
		case "max_usd_per_day":
			var ok bool
			if a.MaxUSDPerDay, ok = asNumber(value); !ok || a.MaxUSDPerDay != 0 && !(a.MaxUSDPerDay >= 0.01 && a.MaxUSDPerDay <= mostUSD) {
				err = fmt.Errorf("%v: want US dollars, 0.01 to %d, or 0 for any amount", value, mostUSD)
			}
		case "uids":
			a.UIDs, err = asUIDs(value)
		default:
			err = errors.New("unknown key: an agent has name, uids, notion_user, lead, max_per_agent, max_per_day and max_usd_per_day")
		}
		if err != nil {
			return Agent{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	return a, nil
}

// asMost accepts a limit.
func asMost(raw any) (int, error) {
	n, ok := asNumber(raw)
	if !ok || n != math.Trunc(n) || n < 0 || n > math.MaxInt32 {
		return 0, fmt.Errorf("%v: want a whole number, 0 (any number) or more", raw)
	}
	return int(n), nil
}

func asUIDs(raw any) ([]int, error) {
	items, ok := raw.([]any)
	if !ok {
		return nil, fmt.Errorf("want a list of user ids, got %v", raw)
	}
	uids := make([]int, len(items))
	for i, item := range items {
		n, ok := asNumber(item) // JSON has no whole numbers of its own
		if !ok || n != math.Trunc(n) || n < 0 || n > math.MaxUint32 {
			return nil, fmt.Errorf("%v is not a user id: want a whole number", item)
		}
		uids[i] = int(n)
	}
	return uids, nil
}
