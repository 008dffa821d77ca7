// The JavaScript SDK's client against an agent that package a2a serves, with a webhook of its own:
// `node client.js BINDING URL`, where BINDING is JSONRPC or HTTP+JSON. It says "all good", or fails.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import http from "node:http";

import { SendMessageRequest, TaskState } from "@a2a-js/sdk";
import { ClientFactory } from "@a2a-js/sdk/client";

const [binding, url] = process.argv.slice(2);
const client = await new ClientFactory({
  ...(await defaults()),
  preferredTransports: [binding],
}).createFromUrl(url);

async function defaults() {
  const { JsonRpcTransportFactory, RestTransportFactory } = await import("@a2a-js/sdk/client");
  return { transports: [binding === "JSONRPC" ? new JsonRpcTransportFactory() : new RestTransportFactory()] };
}

// ask makes a request with a message.
function ask(text, { taskId = "", contextId = "", data, ...configuration } = {}) {
  const parts = data === undefined ? [{ text }] : [{ data }];
  return SendMessageRequest.fromJSON({
    message: { messageId: randomUUID(), role: "ROLE_USER", taskId, contextId, parts },
    configuration,
  });
}

const textOf = (parts) => parts.map((p) => p.content?.value ?? "").join("");
const textsOf = (task) => task.artifacts.filter((a) => a.artifactId !== "state").map((a) => textOf(a.parts));

async function fails(name, promise) {
  await assert.rejects(promise, (e) => {
    assert.equal(e.name, name, `${e.name}: ${e.message}`);
    return true;
  });
}

async function collect(stream) {
  const all = [];
  for await (const e of stream) all.push(e.payload);
  return all;
}

// Send and get.
const hello = await client.sendMessage(ask("hello"));
assert.equal(hello.status.state, TaskState.TASK_STATE_COMPLETED);
assert.deepEqual(textsOf(hello), ["hello (1)"]);
const got = await client.getTask({ id: hello.id, tenant: "", historyLength: undefined });
assert.deepEqual(textsOf(got), ["hello (1)"]);
assert.equal(got.history.length, 1);
const without = await client.getTask({ id: hello.id, tenant: "", historyLength: 0 });
assert.equal(without.history.length, 0);
await fails("TaskNotFoundError", client.getTask({ id: randomUUID(), tenant: "", historyLength: undefined }));
await fails("TaskNotCancelableError", client.cancelTask({ id: hello.id, tenant: "", metadata: {} }));
await fails("UnsupportedOperationError", client.sendMessage(ask("more", { taskId: hello.id })));

// Stream.
const stream = await collect(client.sendMessageStream(ask("one moment\ncall ask {}", { contextId: hello.contextId })));
assert.equal(stream[0].$case, "task");
const said = stream.filter((e) => e.$case === "artifactUpdate").map((e) => e.value);
assert.equal(said.map((u) => textOf(u.artifact.parts)).join(""), "one moment");
assert.equal(said.at(-1).lastChunk, true);
const last = stream.at(-1);
assert.equal(last.$case, "statusUpdate");
assert.equal(last.value.status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
assert.equal(textOf(last.value.status.message.parts.slice(0, 1)), "Which colour?");

// Answer.
const taskId = last.value.taskId;
const answered = await client.sendMessage(ask("red", { taskId }));
assert.equal(answered.status.state, TaskState.TASK_STATE_COMPLETED);
assert.deepEqual(textsOf(answered), ["one moment", "red"]);
assert.equal(answered.history.length, 3);
const paid = await client.sendMessage(ask('call pay {"Amount":7}'));
assert.equal(paid.status.state, TaskState.TASK_STATE_INPUT_REQUIRED);
const done = await client.sendMessage(ask("", { taskId: paid.id, data: { approved: true } }));
assert.deepEqual(textsOf(done), ["paid 7"]);

// Return at once, subscribe, be notified, cancel.
const hooked = [];
let refusals = 1;
const hook = http.createServer(async (req, res) => {
  let body = "";
  for await (const chunk of req) body += chunk;
  if (refusals-- > 0) {
    res.writeHead(503).end();
    return;
  }
  hooked.push({ headers: req.headers, body: JSON.parse(body) });
  res.writeHead(200).end();
  hook.emit("told");
});
hook.listen(0, "127.0.0.1");
await once(hook, "listening");
const slow = await client.sendMessage(
  ask("call sleep {}", {
    returnImmediately: true,
    taskPushNotificationConfig: {
      url: `http://127.0.0.1:${hook.address().port}/hook`,
      token: "token",
      authentication: { scheme: "Bearer", credentials: "secret" },
    },
  }),
);
assert.ok([TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING].includes(slow.status.state));
const subscription = client.resubscribeTask({ id: slow.id, tenant: "" });
const first = await subscription.next();
assert.equal(first.value.payload.$case, "task");
const rest = collect(subscription);
const told = hooked.length === 0 ? once(hook, "told") : null;
const cancelled = await client.cancelTask({ id: slow.id, tenant: "", metadata: {} });
assert.equal(cancelled.status.state, TaskState.TASK_STATE_CANCELED);
assert.equal((await rest).at(-1).value.status.state, TaskState.TASK_STATE_CANCELED);
await told;
assert.equal(hooked[0].headers.authorization, "Bearer secret");
assert.equal(hooked[0].headers["x-a2a-notification-token"], "token");
assert.equal(hooked[0].body.statusUpdate.taskId, slow.id);
assert.equal(hooked[0].body.statusUpdate.status.state, "TASK_STATE_CANCELED");

// Push notification configs.
const config = await client.createTaskPushNotificationConfig({
  tenant: "", taskId: slow.id, id: "mine", url: `http://127.0.0.1:${hook.address().port}/hook`, token: "", authentication: undefined,
});
assert.equal(config.id, "mine");
const read = await client.getTaskPushNotificationConfig({ tenant: "", taskId: slow.id, id: "mine" });
assert.equal(read.url, config.url);
const configs = await client.listTaskPushNotificationConfig({ tenant: "", taskId: slow.id, pageSize: 0, pageToken: "" });
assert.equal(configs.configs.length, 2);
await client.deleteTaskPushNotificationConfig({ tenant: "", taskId: slow.id, id: "mine" });
await fails("TaskNotFoundError", client.getTaskPushNotificationConfig({ tenant: "", taskId: slow.id, id: "mine" }));

// List.
const filter = { tenant: "", contextId: "", status: 0, pageSize: 2, pageToken: "", historyLength: undefined, statusTimestampAfter: undefined, includeArtifacts: false };
const seen = new Set();
for (let page = await client.listTasks(filter); ; page = await client.listTasks({ ...filter, pageToken: page.nextPageToken })) {
  for (const t of page.tasks) seen.add(t.id);
  if (!page.nextPageToken) break;
}
for (const id of [hello.id, taskId, paid.id, slow.id]) assert.ok(seen.has(id));
const ofContext = await client.listTasks({ ...filter, contextId: hello.contextId, pageSize: 10 });
assert.equal(ofContext.totalSize, 2);

hook.close();
hook.closeAllConnections();
console.log("all good");
