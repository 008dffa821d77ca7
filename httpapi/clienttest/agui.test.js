// AG-UI: the clients of 1.0 and of what was before, side by side, against examples/server.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'

import { clients, newAgent, readEvents, run, say } from './agui.js'
import { call, startServer } from './server.js'

let server
before(async () => {
  server = await startServer()
})
after(() => server?.stop())

const options = { timeout: 25_000 }
const look = { name: 'look', description: 'Looks at the screen.', parameters: { type: 'object', properties: {} } }

/** The messages of a thread as /v1 has them, oldest first. */
const stored = async (agent) => (await call(`${server.url}/v1/sessions/${agent.threadId}/messages`)).items.reverse()

/** Checks that the client's copy of the thread is the server's. */
async function checkCopy(agent) {
  const kept = await stored(agent)
  const copy = agent.messages.filter((m) => m.role !== 'activity')
  assert.deepEqual(copy.map((m) => m.id).sort(), kept.map((m) => m.id).sort())
  for (const m of copy) {
    const k = kept.find((other) => other.id === m.id)
    assert.equal(m.role, k.role)
    const text = m.role === 'user' ? k.content.map((b) => b.value).join('') : k.content
    assert.equal(m.content ?? '', text ?? '')
    assert.deepEqual((m.toolCalls ?? []).map((c) => [c.id, c.function.name, JSON.parse(c.function.arguments)]),
      (k.tool_calls ?? []).map((c) => [c.id, c.name, c.arguments]))
  }
}

for (const [version, Client] of Object.entries(clients)) {
  const v1 = version === '1.0'
  describe(`@ag-ui/client ${version}`, () => {
    const start = (config) => newAgent(Client, `${server.url}/ag-ui`, config)

    test('chat', options, async () => {
      const agent = start()
      const texts = []
      const { newMessages, last } = await say(agent, '/say Schöne Grüße, 世界 🙂', {}, {
        onTextMessageContentEvent: ({ event }) => void texts.push(event.delta),
      })
      assert.equal(texts.join(''), 'Schöne Grüße, 世界 🙂')
      assert.deepEqual(newMessages.map((m) => [m.role, m.content]), [['assistant', 'Schöne Grüße, 世界 🙂']])
      assert.equal(last.type, 'RUN_FINISHED')
      assert.equal(last.usage[0].totalTokens, last.usage[0].inputTokens + last.usage[0].outputTokens)
      await say(agent, 'hello again')
      assert.deepEqual(agent.messages.map((m) => m.role), ['user', 'assistant', 'user', 'assistant'])
      const [first, second] = await Promise.all(agent.answers)
      assert.equal(first[0].protocolVersion, v1 ? '1.0' : undefined)
      const snapshots = second.filter((e) => e.type === 'MESSAGES_SNAPSHOT')
      assert.equal(snapshots.length, 1, 'the client has the whole conversation when it asks')
      await checkCopy(agent)
    })

    test('tools of the agent, reasoning, activity and steps', options, async () => {
      const agent = start()
      const steps = []
      const script = [
        '/think Hmm, which city?', '/say One moment', '/call weather {"city":"Oslo"}', '/call progress {"steps":3}',
        '/call fail {"message":"naïve"}', '/then', '/call add {"a":1,"b":2}', '/then', '/say Done',
      ]
      await say(agent, script.join('\n'), {}, { onStepStartedEvent: ({ event }) => void steps.push(event.stepName) })
      assert.deepEqual(steps, ['entrypoint', 'call_model', 'call_tools', 'call_model', 'call_tools', 'call_model', 'exit'])
      const reasoning = agent.messages.find((m) => m.role === 'reasoning')
      assert.equal(reasoning.content, 'Hmm, which city?')
      assert.equal(reasoning.encryptedValue, 'offline')
      const activity = agent.messages.find((m) => m.role === 'activity')
      assert.deepEqual([activity.activityType, activity.content], ['progress', { done: 3 }])
      const failed = agent.messages.find((m) => m.role === 'tool' && m.error)
      assert.equal(failed.error, 'naïve')
      assert.equal(agent.messages.filter((m) => m.role === 'assistant').length, 3, 'no call stands in a message of its own')
      await checkCopy(agent)
    })

    test('state: a snapshot, then deltas, and what the client changes comes along', options, async () => {
      const agent = start({ initialState: { color: 'red', kept: { a: [1] } } })
      const states = []
      await say(agent, '/call remember {"key":"color","value":"blue"}\n/call remember {"key":"n","value":7}', {}, {
        onStateChanged: ({ state }) => void states.push(structuredClone(state)),
      })
      assert.deepEqual(agent.state, { color: 'blue', kept: { a: [1] }, n: 7 })
      assert.ok(states.some((s) => s.color === 'red' || s.n === undefined), 'the changes come one by one')
      agent.setState({ ...agent.state, mine: true })
      await say(agent, 'and now')
      assert.deepEqual(agent.state, { color: 'blue', kept: { a: [1] }, n: 7, mine: true })
      const kept = await call(`${server.url}/v1/sessions/${agent.threadId}/checkpoints`)
      assert.deepEqual((await call(`${server.url}/v1/checkpoints/${kept.items[0].id}`)).context, agent.state)
    })

    test('a frontend tool: the run ends, and goes on with the result', options, async () => {
      const agent = start()
      const { newMessages, last } = await say(agent, '/say I look\n/call look {"at":"screen"}\n/call weather {"city":"Oslo"}', { tools: [look] })
      const { toolCalls } = newMessages.find((m) => m.role === 'assistant')
      const mine = toolCalls.find((c) => c.function.name === 'look')
      assert.deepEqual(JSON.parse(mine.function.arguments), { at: 'screen' })
      assert.deepEqual(last.outcome, v1 ? { type: 'success', pendingToolCallIds: [mine.id] } : { type: 'success' })
      assert.equal(newMessages.filter((m) => m.role === 'tool').length, 1, 'nobody else answers for the frontend')

      agent.addMessage({ id: randomUUID(), role: 'tool', toolCallId: mine.id, content: 'a cat' })
      const answer = await run(agent, { tools: [look] })
      assert.match(answer.newMessages.at(-1).content, /look: a cat/)
      const events = await agent.answers[1]
      assert.ok(!events.some((e) => e.type.startsWith('TOOL_CALL')), 'what is known is not said again')
      await checkCopy(agent)
    })

    test('an interrupt is answered, or cancelled', options, async () => {
      const agent = start()
      const { last } = await say(agent, '/call approve {"action":"launch"}\n/call approve {"action":"land"}')
      assert.equal(last.outcome.type, 'interrupt')
      const [launch, land] = last.outcome.interrupts
      assert.equal(launch.reason, 'tool_call')
      assert.deepEqual(launch.metadata.payload, { tool: 'approve', arguments: { action: 'launch' } })
      assert.deepEqual(agent.pendingInterrupts.map((i) => i.id), [launch.id, land.id])
      const answer = await run(agent, {
        resume: [
          { interruptId: launch.id, status: 'resolved', payload: { approved: true } },
          { interruptId: land.id, status: 'cancelled' },
        ],
      })
      assert.match(answer.newMessages.at(-1).content, /approve: did launch\napprove: error: cancelled/)
      const events = await agent.answers[1]
      assert.deepEqual(events.filter((e) => e.type.startsWith('TOOL_CALL')).map((e) => e.type), ['TOOL_CALL_RESULT'])
      assert.equal(agent.pendingInterrupts.length, 0)
      await checkCopy(agent)
    })

    test('a run that is aborted is cancelled, and the next one begins at once', options, async () => {
      const agent = start()
      const running = say(agent, '/slow 20\n/say ' + 'word '.repeat(10_000), {}, {
        onTextMessageContentEvent: () => void agent.abortRun(),
      })
      await running.catch((e) => assert.equal(e.name, 'AbortError'))
      await say(agent, 'hello again')
      const runs = (await call(`${server.url}/v1/sessions/${agent.threadId}/runs`)).items
      assert.deepEqual(runs.map((r) => r.status), ['completed', 'cancelled'])
      await checkCopy(agent) // the first part of the answer is in both
      assert.equal((await stored(agent)).length, 4)
    })

    test('a run that is cancelled elsewhere ends', options, async () => {
      const agent = start()
      const { last } = await say(agent, '/call sleep {"ms":3600000}', {}, {
        onToolCallEndEvent: async () => {
          const { items } = await call(`${server.url}/v1/sessions/${agent.threadId}/runs`)
          await fetch(`${server.url}/v1/runs/${items[0].id}/cancel`, { method: 'PUT' })
        },
      })
      assert.equal(last.type, 'RUN_FINISHED')
      assert.deepEqual(last.outcome, v1 ? { type: 'cancelled' } : undefined)
      assert.ok(!('result' in last))
    })

    test('an error of the model', options, async () => {
      const agent = start()
      const failures = []
      const running = say(agent, '/say One moment\n/error the provider is down', {}, {
        onRunErrorEvent: ({ event }) => void failures.push(event),
      })
      await running.catch(() => {})
      assert.equal(failures.length, 1)
      assert.equal(failures[0].code, 'model_error')
      await say(agent, 'are you there?')
      assert.equal(agent.messages.at(-1).content, 'You said: are you there?')
      await checkCopy(agent)
    })

    test('a request that is wrong is refused with what is wrong', options, async () => {
      const agent = start()
      await assert.rejects(say(agent, 'hello', { tools: [{ ...look, name: 'no name' }] }), (e) => {
        assert.match(e.message, /422/)
        assert.match(e.message, /tools\[0\]\.name/)
        return true
      })
      await assert.rejects(call(`${server.url}/v1/sessions/${agent.threadId}`), /404010/, 'nothing was written')
    })

    test('a page that is loaded anew in the middle of a run', options, async () => {
      const first = start()
      const runId = randomUUID()
      const { promise: running, resolve } = Promise.withResolvers?.() ?? withResolvers()
      const ended = say(first, '/slow 20\n/say one two three four five six\n/call weather {"city":"Oslo"}\n/then\n/say done', { runId }, {
        onTextMessageContentEvent: () => void resolve(),
      })
      await running
      const second = start({ threadId: first.threadId }) // which has nothing but the ids
      const again = await run(second, { runId })
      await ended
      assert.equal(again.last.type, 'RUN_FINISHED')
      assert.deepEqual(second.messages.map((m) => [m.id, m.role, m.content]), first.messages.map((m) => [m.id, m.role, m.content]))
      await checkCopy(second)

      const third = start({ threadId: first.threadId })
      await run(third, { runId }) // when it has ended
      assert.deepEqual(third.messages.map((m) => m.id), first.messages.map((m) => m.id))
      assert.deepEqual((await third.answers[0]).map((e) => e.type), ['RUN_STARTED', 'STATE_SNAPSHOT', 'MESSAGES_SNAPSHOT', 'RUN_FINISHED'])
      const fourth = start({ threadId: first.threadId })
      await run(fourth) // a run that brings nothing
      assert.deepEqual(fourth.messages.map((m) => m.id), first.messages.map((m) => m.id))
    })

    test('ids that are no UUIDs are echoed as they are', options, async () => {
      const agent = start({ threadId: `café/№ 7 ${version}` })
      agent.addMessage({ id: 'msg-1', role: 'user', content: 'hello' })
      await run(agent, { runId: 'run-1' })
      agent.addMessage({ id: 'msg-2', role: 'user', content: [{ type: 'text', text: 'look' }, { type: 'text', text: 'here' }] })
      await run(agent, { runId: 'run-2' })
      assert.deepEqual(agent.messages.filter((m) => m.role === 'user').map((m) => m.id), ['msg-1', 'msg-2'])
      assert.equal(agent.messages.length, 4)
    })
  })
}

const withResolvers = () => {
  const it = {}
  it.promise = new Promise((resolve, reject) => Object.assign(it, { resolve, reject }))
  return it
}

test('both clients on one thread, and /v1', options, async () => {
  const [older, newer] = [clients['0.0.59'], clients['1.0']].map((Client) => newAgent(Client, `${server.url}/ag-ui`, { threadId: 'shared' + server.url }))
  await say(older, 'from the older one')
  await say(newer, 'from the newer one')
  await say(older, 'once more')
  assert.equal(older.messages.length, 6)
  assert.deepEqual(older.messages.map((m) => m.content), [...newer.messages.map((m) => m.content), 'once more', 'You said: once more'])
})

test('the framing of an answer', options, async () => {
  const response = await fetch(`${server.url}/ag-ui/run`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'text/event-stream' },
    body: JSON.stringify({ threadId: 't', runId: 'r', messages: [{ id: 'm', role: 'user', content: 'hello' }] }),
  })
  assert.equal(response.headers.get('content-type'), 'text/event-stream')
  const events = readEvents(await response.text())
  assert.deepEqual([events[0].threadId, events[0].runId, events.at(-1).threadId, events.at(-1).runId], ['t', 'r', 't', 'r'])
})
