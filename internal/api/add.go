package api

// AddRequest asks for a new task. The jsonschema tags describe the arguments of the MCP tool.
type AddRequest struct {
	Agent     string         `json:"agent,omitempty" is:"actor" doc:"Who asks; without one, the caller's user is on record"`
	Title     string         `json:"title" minLength:"1"`
	Body      string         `json:"body,omitempty" fit:"exact" doc:"The content of the page, in Markdown" jsonschema:"Markdown"`
	Priority  string         `json:"priority,omitempty" doc:"In dibs's words (critical, high, medium, low) or the board's"`
	DependsOn []string       `json:"depends_on,omitempty" doc:"The tasks that it waits for, each by its id, URL or key, such as T-3"`
	For       string         `json:"for,omitempty" doc:"The agent that it is assigned to; absent for all" jsonschema:"only this agent"`
	Fields    map[string]any `json:"fields,omitempty" doc:"Values of further properties of the database, by their names: a text, a number, true or false, or a list of texts"`
}

// Added answers an AddRequest.
type Added struct {
	Task Task `json:"task"`
}

// CommentRequest asks for a comment on a task's page. The jsonschema tags describe the arguments of
// the MCP tool.
type CommentRequest struct {
	Agent   string `json:"agent,omitempty" is:"actor" doc:"Who says it, and signs; without one, the caller's user does"`
	Text    string `json:"text" fit:"exact" minLength:"1"`
	Mention string `json:"mention,omitempty" doc:"Whom the comment mentions: a Notion user by name, e-mail address or id" jsonschema:"a person"`
}

// Commented answers a CommentRequest.
type Commented struct {
	Task    TaskRef `json:"task"`
	Comment Comment `json:"comment"`
	Detail  string  `json:"detail,omitempty" doc:"Why the comment is not on the page yet, where that needs saying"`
	// Owed is set if the comment is not on the page yet. The status of the answer says so.
	Owed bool `json:"-"`
}

// AskRequest asks people a question: in a comment, and the task is blocked until they answer.
type AskRequest struct {
	Agent string `json:"agent,omitempty" is:"owner" doc:"Whose claim it must be"`
	Text  string `json:"text" fit:"exact" minLength:"1" doc:"The question"`
	To    string `json:"to,omitempty" doc:"Whom the comment mentions: a Notion user by name, e-mail address or id"`
	Used
}
