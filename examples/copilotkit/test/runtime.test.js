// The runtime of CopilotKit as it stands between a page and examples/server, without a page and without our runner.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import http from 'node:http'
import { after, before, describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'

import { call, startServer } from '../../../httpapi/clienttest/server.js'

Object.assign(process.env, { COPILOTKIT_TELEMETRY_DISABLED: 'true', DO_NOT_TRACK: '1' })
const installed = existsSync(new URL('../node_modules/@copilotkit/runtime', import.meta.url))
const skip = !installed && !process.env.CI && 'npm run setup installs what it needs'

describe('the runtime of CopilotKit', { skip }, () => {
  let server, runtime, url
  before(async () => {
    const { CopilotRuntime } = await import('@copilotkit/runtime/v2')
    const { createCopilotNodeListener } = await import('@copilotkit/runtime/v2/node')
    const { HttpAgent } = await import('@ag-ui/client')
    server = await startServer()
    const agents = { default: new HttpAgent({ url: `${server.url}/ag-ui` }) }
    const listener = createCopilotNodeListener({ runtime: new CopilotRuntime({ agents }), basePath: '/api/copilotkit' })
    runtime = http.createServer(listener).listen(0, '127.0.0.1')
    await once(runtime, 'listening')
    url = `http://127.0.0.1:${runtime.address().port}/api/copilotkit/agent/default`
  })
  after(async () => {
    runtime?.closeAllConnections()
    runtime?.close()
    await server?.stop()
  })

  const options = { timeout: 120_000 }

  /** The body that a page sends. */
  const input = (threadId, content, more) => ({
    threadId, runId: randomUUID(), messages: [{ id: randomUUID(), role: 'user', content }],
    tools: [], context: [], state: {}, forwardedProps: {}, ...more,
  })

  /** Posts to the runtime, and yields the events that it answers with. */
  async function* events(path, body) {
    const response = await fetch(`${url}/${path}`, {
      method: 'POST', headers: { 'content-type': 'application/json', accept: 'text/event-stream' }, body: JSON.stringify(body),
    })
    assert.equal(response.status, 200, `${path}: ${response.status}`)
    let text = ''
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      text += chunk
      for (let at; (at = text.indexOf('\n\n')) >= 0; text = text.slice(at + 2)) {
        const data = text.slice(0, at).match(/^data: (.*)$/m)
        if (data) yield JSON.parse(data[1])
      }
    }
  }

  const all = async (path, body) => {
    const list = []
    for await (const e of events(path, body)) list.push(e)
    return list
  }
  const textOf = (list) => list.filter((e) => e.type === 'TEXT_MESSAGE_CONTENT').map((e) => e.delta).join('')

  test('run: what the agent says comes through, and nothing is made up', options, async () => {
    const body = input(randomUUID(), '/think Hm\n/say One moment\n/call weather {"city":"Oslo"}\n/call progress {"steps":2}\n/then\n/say Done')
    const list = await all('run', body)
    assert.equal(list.at(-1).type, 'RUN_FINISHED')
    assert.equal(textOf(list), 'One momentDone')
    const types = list.map((e) => e.type)
    for (const type of ['REASONING_MESSAGE_CONTENT', 'TOOL_CALL_START', 'TOOL_CALL_RESULT', 'ACTIVITY_SNAPSHOT', 'STATE_SNAPSHOT', 'MESSAGES_SNAPSHOT', 'STEP_STARTED']) {
      assert.ok(types.includes(type), `${type} in ${types}`)
    }
    assert.equal(types.filter((type) => type === 'TOOL_CALL_RESULT').length, 2)
    const { items } = await call(`${server.url}/v1/sessions/${body.threadId}/messages`)
    assert.equal(items.length, 6)
    assert.equal(items.at(-1).id, body.messages[0].id)
  })

  test('a frontend tool: the run goes on with its result', options, async () => {
    const look = { name: 'look', description: 'Looks.', parameters: { type: 'object', properties: {} } }
    const threadId = randomUUID()
    const first = await all('run', input(threadId, '/call look {}', { tools: [look] }))
    assert.equal(first.at(-1).type, 'RUN_FINISHED')
    assert.ok(!first.some((e) => e.type === 'TOOL_CALL_RESULT'))
    const { messages } = first.findLast((e) => e.type === 'MESSAGES_SNAPSHOT')
    const toolCallId = messages.at(-1).toolCalls[0].id
    const result = { id: randomUUID(), role: 'tool', toolCallId, content: 'a cat' }
    const second = await all('run', { ...input(threadId, '', { tools: [look] }), messages: [...messages, result] })
    assert.equal(textOf(second), 'look: a cat')
  })

  test('an interrupt is answered', options, async () => {
    const threadId = randomUUID()
    const first = await all('run', input(threadId, '/call approve {"action":"launch"}'))
    assert.equal(first.at(-1).outcome.type, 'interrupt')
    const [{ id }] = first.at(-1).outcome.interrupts
    const { messages } = first.findLast((e) => e.type === 'MESSAGES_SNAPSHOT')
    const resume = [{ interruptId: id, status: 'resolved', payload: { approved: true } }]
    const second = await all('run', { ...input(threadId, ''), messages, resume })
    assert.equal(textOf(second), 'approve: did launch')
  })

  test('stop: the run is cancelled, and the next one is answered', options, async () => {
    const threadId = randomUUID()
    const body = input(threadId, '/slow 20\n/say ' + 'word '.repeat(10_000))
    let last
    for await (const e of events('run', body)) {
      last = e
      if (e.type === 'TEXT_MESSAGE_CONTENT' && !body.stopped) {
        body.stopped = true
        const response = await fetch(`${url}/stop/${threadId}`, { method: 'POST' })
        assert.equal(response.status, 200)
      }
    }
    assert.ok(['RUN_FINISHED', 'RUN_ERROR'].includes(last.type), last.type)
    let status
    do {
      await pause(10)
      ;({ status } = await call(`${server.url}/v1/runs/${body.runId}`))
    } while (status === 'running')
    assert.equal(status, 'cancelled')
    assert.equal(textOf(await all('run', input(threadId, 'hello again'))), 'You said: hello again')
  })

  test('a request that is refused is an error of the run, with what is wrong', options, async () => {
    const list = await all('run', input(randomUUID(), 'hello', { tools: [{ name: 'no name', description: '', parameters: {} }] }))
    assert.equal(list.at(-1).type, 'RUN_ERROR')
    assert.match(list.at(-1).message, /422001.*tools\[0\]\.name/)
  })

  test('connect: the runtime shows what it has of the thread', options, async () => {
    const threadId = randomUUID()
    await all('run', input(threadId, 'hello'))
    const list = await all('connect', input(threadId, ''))
    assert.equal(list.at(-1).type, 'RUN_FINISHED')
  })
})
