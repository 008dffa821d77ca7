package gemini

import (
	"encoding/json"

	"google.golang.org/genai"
)

// The bodies of the API, as far as they matter here. Types of the SDK would do, if they did not
// hold arguments as map[string]any and temperatures as float32.

type requestBody struct {
	Contents          []content        `json:"contents"`
	SystemInstruction *content         `json:"systemInstruction,omitempty"`
	Tools             []tools          `json:"tools,omitempty"`
	GenerationConfig  generationConfig `json:"generationConfig,omitzero"`
}

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

type part struct {
	Text             *string           `json:"text,omitempty"`
	Thought          bool              `json:"thought,omitempty"`
	ThoughtSignature string            `json:"thoughtSignature,omitempty"` // base64, never decoded
	InlineData       *inlineData       `json:"inlineData,omitempty"`
	FileData         *fileData         `json:"fileData,omitempty"`
	FunctionCall     *functionCall     `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
}

type inlineData struct {
	MIMEType string `json:"mimeType"`
	Data     string `json:"data"` // base64
}

type fileData struct {
	MIMEType string `json:"mimeType"`
	FileURI  string `json:"fileUri"`
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type functionResponse struct {
	ID       string         `json:"id,omitempty"`
	Name     string         `json:"name"`
	Response map[string]any `json:"response"`
}

type tools struct {
	FunctionDeclarations []functionDeclaration `json:"functionDeclarations"`
}

type functionDeclaration struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

type generationConfig struct {
	MaxOutputTokens    *uint64         `json:"maxOutputTokens,omitempty"`
	Temperature        *float64        `json:"temperature,omitempty"`
	TopP               *float64        `json:"topP,omitempty"`
	TopK               *uint32         `json:"topK,omitempty"`
	StopSequences      []string        `json:"stopSequences,omitempty"`
	FrequencyPenalty   *float64        `json:"frequencyPenalty,omitempty"`
	PresencePenalty    *float64        `json:"presencePenalty,omitempty"`
	Seed               *uint64         `json:"seed,omitempty"`
	ResponseMIMEType   string          `json:"responseMimeType,omitempty"`
	ResponseJSONSchema json.RawMessage `json:"responseJsonSchema,omitempty"`
}

// chunk is one piece of a reply.
type chunk struct {
	ResponseID     string          `json:"responseId"`
	Model          string          `json:"modelVersion"`
	Candidates     []candidate     `json:"candidates"`
	PromptFeedback *promptFeedback `json:"promptFeedback"`
	Usage          *usage          `json:"usageMetadata"`
	Error          *genai.APIError `json:"error"`
}

type candidate struct {
	Index         int                `json:"index"`
	Content       content            `json:"content"`
	FinishReason  genai.FinishReason `json:"finishReason"`
	FinishMessage string             `json:"finishMessage"`
}

type promptFeedback struct {
	BlockReason        string `json:"blockReason"`
	BlockReasonMessage string `json:"blockReasonMessage"`
}

type usage struct {
	Prompt        int64 `json:"promptTokenCount"` // with what was cached
	ToolUsePrompt int64 `json:"toolUsePromptTokenCount"`
	Cached        int64 `json:"cachedContentTokenCount"`
	Candidates    int64 `json:"candidatesTokenCount"`
	Thoughts      int64 `json:"thoughtsTokenCount"`
}
