/**
 * CopilotKit's AgentRunner on the store of an everstep server: connect, stop and history survive the restart of the
 * runtime, and of the server.
 */
export { EverstepAgentRunner, type EverstepAgentRunnerOptions } from './runner.js'
export { runId, sessionId } from './ids.js'
