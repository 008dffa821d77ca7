// The TypeScript SDK's client against an agent that package mcp serves: `node client.js stdio COMMAND` or
// `node client.js http URL`. It says "all good", or fails.
import assert from "node:assert/strict";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [transport, target] = process.argv.slice(2);

async function connect(capabilities) {
  const client = new Client({ name: "peer", version: "1" }, { capabilities });
  await client.connect(
    transport === "stdio"
      ? new StdioClientTransport({ command: target, env: process.env })
      : new StreamableHTTPClientTransport(new URL(target)),
  );
  return client;
}

const say = (client, args, options) => client.callTool({ name: "parrot", arguments: args }, undefined, options);

// One that can be asked.
{
  const client = await connect({ elicitation: {} });
  const asked = [];
  client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
    asked.push(params.message);
    return params.requestedSchema.properties.approved
      ? { action: "accept", content: { approved: false, reason: "too much" } }
      : { action: "accept", content: { answer: "red" } };
  });

  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((t) => t.name), ["parrot"]);

  const first = await say(client, { message: "hello" });
  assert.equal(first.content[0].text, "hello (1)");
  assert.equal(first.structuredContent.answer, "hello (1)");

  const progress = [];
  const session_id = first.structuredContent.session_id;
  const second = await say(client, { message: "call ask {}", session_id }, { onprogress: (p) => progress.push(p) });
  assert.equal(second.content[0].text, "red");
  assert.equal(second.structuredContent.session_id, session_id);
  assert.equal(progress[0].message, "calling ask");

  const third = await say(client, { message: 'call pay {"Amount":7}', session_id });
  assert.equal(third.content[0].text, "Error: too much");
  assert.deepEqual(asked, ["Which colour?", 'May the agent call pay with {"Amount":7}?']);

  const wrong = await say(client, { message: 7 });
  assert.equal(wrong.isError, true);
  await client.close();
}

// One that cannot.
{
  const client = await connect({});
  const open = await say(client, { message: "call ask {}" });
  const { session_id, questions } = open.structuredContent;
  assert.equal(questions[0].payload, "Which colour?");
  const answered = await say(client, { session_id, answers: { [questions[0].id]: "blue" } });
  assert.equal(answered.content[0].text, "blue");
  await client.close();
}

console.log("all good");
