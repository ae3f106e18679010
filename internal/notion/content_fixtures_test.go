package notion_test

import (
	"net/http"
	"strings"
)

// contentScenes are about what people wrote on a page.
var contentScenes = []scene{{
	name: "content",
	set: func(s *stage) {
		id := s.task(prepared("Read me"))
		if s.transport == nil {
			return
		}
		s.call(http.MethodPatch, "/v1/blocks/"+string(id)+"/children", props{"children": []any{
			props{"heading_2": props{"rich_text": spans("Done when")}},
			props{"to_do": props{"rich_text": spans("it has a test")}},
			props{"bookmark": props{"url": "https://example.com"}},
		}}, nil)
		s.call(http.MethodPost, "/v1/comments", props{"parent": props{"page_id": id}, "rich_text": spans("Which of the two is meant?")}, nil)
	},
	play: func(s *stage) {
		md, err := s.client.Markdown(s.Context(), s.only())
		if err != nil || !strings.HasPrefix(md.Text, "## Done when\n- [ ] it has a test\n<unknown ") {
			s.Errorf("%+v, %v", md, err)
		}
		if len(md.Missing) != 1 || !strings.HasPrefix(md.Missing[0], "bookmark, https://") {
			s.Errorf("missing: %q", md.Missing)
		}
		comments, err := s.client.Comments(s.Context(), s.only())
		if err != nil || len(comments) != 1 || comments[0].Text != "Which of the two is meant?" || comments[0].By == "" || comments[0].At.IsZero() {
			s.Errorf("%+v, %v", comments, err)
		}
	},
}}
