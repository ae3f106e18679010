package emulator_test

import (
	"fmt"
	"strings"
	"testing"
)

var versions = []string{"2022-06-28", "2025-09-03", "2026-03-11"}

// The types of Notion's own client take none of these. A line has what is sent, in the place of its
// table, and what follows the place in the answer's message.
func TestWrongTypes(t *testing.T) {
	a, db, _ := full(t)
	a.names["row"], a.names["db_source"] = a.row(db, object{"Name": title("Row")}), a.sourceOf(db)
	const counts, related = `{"rollup":{"function":"count","relation_property_name":"Relation","rollup_property_name":`, `{"relation":{"$key":"$target"`
	for _, table := range []struct{ request, place, lines string }{
		{`PATCH $schema {"properties":{"New":%s}}`, "body.properties.New", `
{"number":null} | .number should be an object, instead was ´null´.
{"number":{"format":7}} | .number.format should be a string or ´undefined´, instead was ´7´.
{"formula":{"expression":true}} | .formula.expression should be a string or ´undefined´, instead was ´true´.
{"rollup":{"function":"total","relation_property_name":"Relation","rollup_property_name":"Name"}} | .rollup.function should be ´"count"´, ` + `
{"rollup":{"function":"count","relation_property_name":7,"rollup_property_name":"Name"}} | .rollup.relation_property_name should be a string or ´undefined´, instead was ´7´.
` + counts + `""}} | .rollup.rollup_property_name should be defined
` + counts + `"Nope"}} | Could not find property with name or id: Nope
{"type":"checkbox","number":{}} | .checkbox should be defined, instead was ´undefined´.
{"checkbox":{},"description":7} | .description should be a string or ´undefined´, instead was ´7´.
` + related + `}} | .relation.single_property should be defined, instead was ´undefined´.
` + related + `,"single_property":true}} | .relation.single_property should be an object, instead was ´true´.
` + related + `,"type":"single_property","dual_property":{}}} | .relation.type should be ´"dual_property"´ or ´undefined´, instead was ´"single_property"´.
{"select":{"options":null}} | .select.options should be an array or ´undefined´, instead was ´null´.
{"select":{"options":[{"name":"a","description":7}]}} | .select.options[0].description should be a string or ´undefined´, instead was ´7´.
{"unsupported":{}} | .unsupported should be not present, instead was ´{}´.`},
		{`PATCH blocks/$row/children {"children":[%s]}`, "body.children[0]", `
{"type":"quote","paragraph":{"rich_text":[]}} | .type should be ´"paragraph"´ or ´undefined´, instead was ´"quote"´.
{"object":"page","paragraph":{"rich_text":[]}} | .object should be ´"block"´ or ´undefined´, instead was ´"page"´.
{"to_do":{"rich_text":[],"checked":"yes"}} | .to_do.checked should be a boolean or ´undefined´, instead was ´"yes"´.
{"heading_1":{"rich_text":[],"is_toggleable":1}} | .heading_1.is_toggleable should be a boolean or ´undefined´, instead was ´1´.
{"paragraph":{"rich_text":[],"color":"mauve"}} | .paragraph.color should be ´"default"´, ´"gray"´,
{"paragraph":{"rich_text":[],"icon":{"type":"emoji","external":{}}}} | .paragraph.icon.type should be ´"external"´ or ´undefined´, instead was ´"emoji"´.
{"code":{"rich_text":[]}} | .code.language should be ´"abap"´,
{"code":{"rich_text":[],"language":"go","caption":"x"}} | .code.caption should be an array or ´undefined´, instead was ´"x"´.
{"image":{}} | .image.external should be defined, instead was ´undefined´.
{"equation":{}} | .equation.expression should be defined, instead was ´undefined´.
{"table_row":{"cells":["x"]}} | .table_row.cells[0] should be an array, instead was ´"x"´.`},
		{`PATCH blocks/$row/children {"children":[{"paragraph":{"rich_text":[%s]}}]}`, "body.children[0].paragraph.rich_text[0]", `
{"type":"mention","text":{"content":"x"}} | .type should be ´"text"´ or ´undefined´, instead was ´"mention"´.
{"text":{"content":"x"},"annotations":null} | .annotations should be an object or ´undefined´, instead was ´null´.
{"text":{"content":"x"},"annotations":{"color":"mauve"}} | .annotations.color should be ´"default"´, ´"gray"´,
{"mention":{}} | .mention.user should be defined, instead was ´undefined´.
{"mention":{"user":{"object":"page","id":"$nobody"}}} | .mention.user.object should be ´"user"´ or ´undefined´, instead was ´"page"´.`},
		{`PATCH pages/$row %s`, "body", `
{"icon":{"emoji":7}} | .icon.emoji should be a string, instead was ´7´.
{"cover":{"emoji":"x"}} | .cover.external should be defined, instead was ´undefined´.
{"is_locked":null} | .is_locked should be a boolean or ´undefined´, instead was ´null´.
{"properties":{"Select":{"select":{"name":"red","color":"mauve"}}}} | .properties.Select.select.color should be ´"default"´, ´"gray"´,
{"properties":{"People":{"people":[{"object":"bot","id":"$nobody"}]}}} | .properties.People.people[0].object should be ´"user"´ or ´undefined´, instead was ´"bot"´.
{"properties":{"Files":{"files":[{"name":"x"}]}}} | .properties.Files.files[0].external should be defined, instead was ´undefined´.`},
		{`POST $schema/query %s`, "body", `
{"filter":null} | .filter should be an object or ´undefined´, instead was ´null´.
{"filter":{"type":"title","property":"Text","rich_text":{"equals":"x"}}} | .filter.type should be ´"rich_text"´ or ´undefined´, instead was ´"title"´.
{"filter":{"type":"date","timestamp":"created_time","created_time":{"past_week":{}}}} | .filter.type should be ´"created_time"´ or ´undefined´, instead was ´"date"´.
{"sorts":[{"property":"Name"}]} | .sorts[0].direction should be ´"ascending"´ or ´"descending"´, instead was ´undefined´.
{"page_size":null} | .page_size should be a number or ´undefined´, instead was ´null´.`},
	} {
		for i, version := range versions {
			a := a.as(version)
			a.names["schema"], a.names["key"], a.names["target"] = "data_sources/"+a.names["db_source"], "data_source_id", a.names["db_source"]
			if i == 0 {
				a.names["schema"], a.names["key"], a.names["target"] = "databases/"+db, "database_id", db
			}
			for line := range strings.Lines(strings.TrimSpace(table.lines)) {
				sent, want, _ := strings.Cut(strings.TrimSpace(line), " | ")
				if strings.HasPrefix(want, ".") {
					want = "body failed validation: " + table.place + strings.ReplaceAll(want, "´", "`")
				}
				if said := a.play(fmt.Sprintf(table.request, sent) + " | 400")["message"].(string); !strings.HasPrefix(said, want) {
					t.Errorf("%s %s: %q\nwant %q", version, sent, said, want)
				}
			}
		}
	}
}

// A word that only other versions know is refused.
func TestWordsOfOtherVersions(t *testing.T) {
	a, dbs := seeded(t, "empty")
	a.names["row"] = a.row(dbs.Tasks, object{"Name": title("Row")})
	const not, edited = " | 400: body.%s should be not present, instead was ´%s´.", `{"timestamp":"last_edited_time","last_edited_time":{"past_week":{}}}`
	a.play(`PATCH blocks/$row/children {"children":[{"paragraph":{"rich_text":[]}}]} | $block = results.0.id`)
	for i, old := range []bool{true, false, false} {
		version, schema := []string{"22", "25", "26"}[i], "data_sources/$source"
		if old {
			schema = "databases/$tasks"
		}
		refused := func(are bool, place, was string) string {
			if !are {
				return "\n"
			}
			return fmt.Sprintf(not, place, was) + "\n"
		}
		a.play(version + ` POST pages {"parent":{"database_id":"$tasks"},"markdown":"x"}` + refused(old, "markdown", `"x"`) +
			version + ` PATCH blocks/$row/children {"children":[{"paragraph":{"rich_text":[]}}],"after":"$block"}` + refused(i == 2, "after", `"$block"`) +
			version + ` POST ` + schema + `/query {"filter":{"or":[{"and":[` + edited + `]}]}}` + refused(old, "filter.or[0].and[0].timestamp", `"last_edited_time"`) +
			version + ` POST ` + schema + `/query {"filter":{"or":[` + edited + `]}}` + "\n" +
			version + ` PATCH ` + schema + ` {"properties":{"New":{"relation":{"data_source_id":"$source","single_property":{}}}}}` + refused(old, "properties.New.relation.data_source_id", `"$source"`))
	}
}

// Answers have what a request has left out. The test of Notion's own types knows of the rest.
func TestContentIsAnsweredWhole(t *testing.T) {
	a, dbs := seeded(t, "empty")
	a.names["row"] = a.row(dbs.Tasks, object{"Name": title("Row")})
	a.names["bare"] = undashed(a.names["row"])
	const link = `{"url":"https://example.com"}`
	for _, c := range [][3]string{
		{"paragraph", `{"rich_text":[],"icon":{"emoji":"x"},"href":"?"}`, `{"rich_text":[],"color":"default","icon":{"type":"emoji","emoji":"x"}}`},
		{"callout", `{"rich_text":[],"color":"red_background"}`, `{"rich_text":[],"color":"red_background","icon":null}`},
		{"heading_4", `{"rich_text":[]}`, `{"rich_text":[],"color":"default","is_toggleable":false}`},
		{"heading_1", `{"rich_text":[],"is_toggleable":true}`, `{"rich_text":[],"color":"default","is_toggleable":true}`},
		{"to_do", `{"rich_text":[]}`, `{"rich_text":[],"color":"default","checked":false}`},
		{"template", `{"rich_text":[]}`, `{"rich_text":[]}`},
		{"code", `{"rich_text":[],"language":"go"}`, `{"rich_text":[],"language":"go","caption":[]}`},
		{"image", `{"external":` + link + `}`, `{"type":"external","external":` + link + `,"caption":[]}`},
		{"file", `{"external":` + link + `}`, `{"type":"external","external":` + link + `,"caption":[],"name":""}`},
		{"table", `{"table_width":1,"children":[{"table_row":{"cells":[[]]}}]}`, `{"table_width":1,"has_column_header":false,"has_row_header":false}`},
		{"table_row", `{"cells":[[]]}`, `{"cells":[[]]}`},
		{"table_of_contents", `{}`, `{"color":"default"}`},
		{"link_to_page", `{"page_id":"$bare"}`, `{"type":"page_id","page_id":"$row"}`},
		{"synced_block", `{"synced_from":null}`, `{"synced_from":null}`},
		{"column_list", `{"children":[]}`, `{}`},
		{"divider", `{}`, `{}`},
	} {
		a.play(`PATCH blocks/$row/children {"children":[{"` + c[0] + `":` + c[1] + `}]} | results.0.` + c[0] + ` = ` + c[2])
	}
	// Of icons, covers and files, answers name the form, and when an address expires.
	must(t, a.e.EditSchema(dbs.Tasks, object{"Files": object{"files": object{}}}))
	a.play(`
PATCH pages/$row {"icon":{"external":` + link + `}} | icon = {"type":"external","external":` + link + `}
PATCH pages/$row {"icon":{"icon":{"name":"book"}}} | icon = {"type":"icon","icon":{"name":"book","color":"gray"}}
PATCH pages/$row {"icon":{"custom_emoji":{"id":"$nobody","name":"x"}}} | icon = {"type":"custom_emoji","custom_emoji":{"id":"$nobody","name":"x","url":""}}
PATCH pages/$row {"cover":{"file_upload":{"id":"$nobody"}}} | cover.type = "file" | cover.file.url = "https://files.notion.invalid/$nobody" | $time = cover.file.expiry_time
PATCH pages/$row {"properties":{"Files":{"files":[{"file_upload":{"id":"$nobody"}},{"name":"x","external":` + link + `}]}}}
	| properties.Files.files.0.name = "" | properties.Files.files.0.type = "file" | $time = properties.Files.files.0.file.expiry_time
	| properties.Files.files.1 = {"name":"x","type":"external","external":` + link + `}`)
}
