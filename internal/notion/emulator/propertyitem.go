package emulator

import "slices"

// getPropertyItem answers one property of a page in full: as a paginated list for the types with
// many values, else as a single item.
func (c *call) getPropertyItem() (render, error) {
	p, err := c.page(c.params["page_id"])
	if err != nil {
		return nil, err
	}
	prop := property{ID: titleID, Name: "title", Type: "title"}
	ok := c.params[propertyParam] == titleID
	if s := c.world.source(p); s != nil {
		prop, ok = s.property(c.params[propertyParam])
		ok = ok && (prop.Name == c.params[propertyParam] || prop.inURL(c.params[propertyParam]))
	}
	if !ok {
		return nil, notFound("property", c.params[propertyParam])
	}
	var elements []any
	switch v := c.world.encodeValue(p, prop).(type) {
	case []span:
		for _, s := range v {
			elements = append(elements, s)
		}
	case []any:
		elements = v
	default:
		return func() map[string]any {
			m := c.world.encodeProperty(p, prop)
			m["object"] = "property_item"
			return m
		}, nil
	}
	if !slices.Contains([]string{"title", "rich_text", "relation", "people"}, prop.Type) {
		return func() map[string]any {
			return map[string]any{"object": "property_item", "id": prop.ID, "type": prop.Type, prop.Type: elements}
		}, nil
	}
	return c.listItems(prop, elements)
}

// listItems answers one page of a property's values. They have no ids, so the cursor counts them.
func (c *call) listItems(prop property, elements []any) (render, error) {
	size, err := pageSize(c.param("page_size"))
	if err != nil {
		return nil, err
	}
	after, err := decodeCursor(c.param("start_cursor"))
	if err != nil {
		return nil, err
	}
	from := 0
	if after != nil {
		if after.ID != prop.ID || after.Returned > len(elements) {
			return nil, badCursor(after.encode())
		}
		from = after.Returned
	}
	to := min(from+size, len(elements))
	results := []any{}
	for _, e := range elements[from:to] {
		results = append(results, map[string]any{"object": "property_item", "id": prop.ID, "type": prop.Type, prop.Type: e})
	}
	next := ""
	if to < len(elements) {
		next = cursor{ID: prop.ID, Returned: to}.encode()
	}
	var nextURL any
	if next != "" {
		nextURL = "https://api.notion.com/v1/pages/" + c.params["page_id"] + "/properties/" + prop.ID + "?start_cursor=" + next
	}
	return func() map[string]any {
		m := listBody("property_item", results, next)
		m["property_item"] = map[string]any{"id": prop.ID, "type": prop.Type, prop.Type: map[string]any{}, "next_url": nextURL}
		return m
	}, nil
}
