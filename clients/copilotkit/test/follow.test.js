// The runner against servers that do not keep their word.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import { test } from 'node:test'

import { Page } from './page.js'

const options = { timeout: 60_000 }
const threadId = 'thread-1'
const frames = (...events) => events.map((e) => `data: ${JSON.stringify(e)}\n\n`).join('')
const started = { type: 'RUN_STARTED', threadId, runId: 'r' }
const finished = { type: 'RUN_FINISHED', threadId, runId: 'r' }
const text = (delta) => [
  { type: 'TEXT_MESSAGE_START', messageId: 'm', role: 'assistant' }, { type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta },
  { type: 'TEXT_MESSAGE_END', messageId: 'm' },
]
const reasoning = [
  { type: 'REASONING_START', messageId: 'x' }, { type: 'REASONING_MESSAGE_START', messageId: 'x', role: 'reasoning' },
  { type: 'REASONING_MESSAGE_CONTENT', messageId: 'x', delta: 'once' }, { type: 'REASONING_MESSAGE_END', messageId: 'x' }, { type: 'REASONING_END', messageId: 'x' },
]
const snapshot = { type: 'MESSAGES_SNAPSHOT', messages: [] }
const whole = frames(started, snapshot, ...text('hello'), finished)

/** A server that answers each request with the next answer, and from then on with the last: [status, body] or a body. */
async function serve(t, ...answers) {
  const requests = []
  const server = http.createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    requests.push(body)
    const answer = answers[Math.min(requests.length, answers.length) - 1]
    if (answer === 'reset') return response.destroy()
    const [status, content] = Array.isArray(answer) ? answer : [200, answer]
    response.writeHead(status, { 'content-type': status === 200 ? 'text/event-stream' : 'application/json' }).end(content)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close().closeAllConnections())
  return { url: `http://127.0.0.1:${server.address().port}`, requests }
}

for (const [name, answers] of Object.entries({
  'it shuts down': [frames(started, ...text('hel').slice(0, 2), { type: 'RUN_ERROR', message: 'come back', code: '503000' }), whole],
  'it is not there yet': [[503, '{}'], 'reset', [502, ''], whole],
  'it is gone between two events': [frames(started, ...text('hel').slice(0, 2)), whole],
  'it breaks off at once': ['', 'reset', whole],
  'an event is no JSON': [frames(started) + 'data: {"type":\n\n', whole],
  'a comment and an unknown field': [': keep-alive\n\nid: 7\nevent: RUN_STARTED\n' + whole],
  'a reasoning is cut off': [
    frames(started, ...reasoning.slice(0, 3)),
    frames(started, snapshot, ...reasoning, ...text('hello'), finished),
  ],
  'a tool call and a step are cut off': [
    frames(started, { type: 'STEP_STARTED', stepName: 's' }, { type: 'TOOL_CALL_START', toolCallId: 'c', toolCallName: 'f' }),
    frames(started, { type: 'STEP_STARTED', stepName: 's' }, snapshot, ...text('hello'), { type: 'STEP_FINISHED', stepName: 's' }, finished),
  ],
})) {
  test(`a run goes on: ${name}`, options, async (t) => {
    const server = await serve(t, ...answers)
    const page = new Page(server.url, threadId)
    await page.say('hi', { runId: 'r' })
    assert.equal(page.last.type, 'RUN_FINISHED', JSON.stringify(page.last))
    assert.deepEqual(page.messages.filter((m) => m.content).map((m) => m.content).slice(-1), ['hello'])
    assert.ok(page.messages.every((m) => m.role !== 'reasoning' || m.content === 'once'), JSON.stringify(page.messages))
    assert.ok(!page.messages.some((m) => m.toolCalls?.length))
    assert.equal(server.requests.length, answers.length)
    assert.ok(server.requests.every((r) => JSON.parse(r).runId === 'r'), 'each time it is the same run')
    assert.equal(page.events.filter((e) => e.type === 'RUN_STARTED').length, 1)
  })
}

for (const [name, answers, message] of [
  ['it always breaks off', [frames(started)], /cannot be reached: the connection ended before the run/],
  ['it never gets well', [[500, '{"code":500000}']], /cannot be reached: HTTP 500/],
  ['it speaks something else', ['<html></html>'], /cannot be reached/],
  ['it forgets the run', [frames(started), [404, '{"code":404000}']], /HTTP 404: .*404000/],
  ['it refuses', [[409, '{"code":409010}']], /HTTP 409.*409010/],
]) {
  test(`a run ends with an error: ${name}`, options, async (t) => {
    const server = await serve(t, ...answers)
    const page = new Page(server.url, threadId, { patience: 500 })
    await page.say('hi', { runId: 'r' })
    assert.equal(page.last.type, 'RUN_ERROR')
    assert.match(page.last.message, message)
    assert.equal(page.events.filter((e) => e.type === 'RUN_ERROR').length, 1)
  })
}
