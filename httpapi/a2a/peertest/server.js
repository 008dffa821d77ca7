// An agent on the JavaScript SDK's server, on both bindings: `node server.js BINDING`. It prints its URL, and for
// each message that it takes up the text of it.
import { randomUUID } from "node:crypto";
import express from "express";

import { AgentCard, Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent } from "@a2a-js/sdk";
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from "@a2a-js/sdk/server";
import { agentCardHandler, jsonRpcHandler, restHandler } from "@a2a-js/sdk/server/express";

const [binding] = process.argv.slice(2);
const app = express();
const server = app.listen(0, "127.0.0.1", () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const card = AgentCard.fromJSON({
    name: "Stranger", description: "Says what it hears.", version: "1",
    supportedInterfaces: [{ url: binding === "JSONRPC" ? `${url}/rpc` : `${url}/rest`, protocolBinding: binding, protocolVersion: "1.0" }],
    capabilities: { streaming: true },
    defaultInputModes: ["text/plain"], defaultOutputModes: ["text/plain"],
    skills: [{ id: "echo", name: "echo", description: "Says it.", tags: ["echo"] }],
  });
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor);
  const userBuilder = async () => ({ isAuthenticated: true, userName: "everybody" });
  app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler }));
  app.use("/rpc", jsonRpcHandler({ requestHandler, userBuilder }));
  app.use("/rest", restHandler({ requestHandler, userBuilder }));
  console.log(url);
});

const executor = {
  async execute({ taskId, contextId, task, userMessage }, bus) {
    const heard = userMessage.parts.map((p) => p.content?.value ?? "").join("");
    console.log(heard);
    const status = (state, text) =>
      AgentEvent.statusUpdate(TaskStatusUpdateEvent.fromJSON({
        taskId, contextId,
        status: {
          state, timestamp: new Date().toISOString(),
          message: text && { messageId: randomUUID(), role: "ROLE_AGENT", taskId, contextId, parts: [{ text }] },
        },
      }));
    bus.publish(AgentEvent.task(task ?? Task.fromJSON({
      id: taskId, contextId, status: { state: "TASK_STATE_SUBMITTED" }, history: [Message.toJSON(userMessage)],
    })));
    if (heard === "ask") {
      bus.publish(status("TASK_STATE_INPUT_REQUIRED", "Which colour?"));
    } else {
      bus.publish(status("TASK_STATE_WORKING", "thinking"));
      await new Promise((done) => setTimeout(done, 200));
      bus.publish(AgentEvent.artifactUpdate(TaskArtifactUpdateEvent.fromJSON({
        taskId, contextId, artifact: { artifactId: "answer", parts: [{ text: `${heard}!` }] }, lastChunk: true,
      })));
      bus.publish(status("TASK_STATE_COMPLETED"));
    }
    bus.finished();
  },
  async cancelTask() {},
};
