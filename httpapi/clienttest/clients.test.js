// Clients that nobody here wrote, over connections that break.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { after, before, test } from 'node:test'

import { fetchEventSource } from '@microsoft/fetch-event-source'
import { EventSource } from 'eventsource'

import { afterEvent, afterId, atByte, beforeId, inCharacter, inLine, startProxy, within } from './proxy.js'
import { call, log, startServer } from './server.js'

// fetch-event-source expects a browser. This is all it needs of one.
globalThis.window = globalThis
globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} }

let server
before(async () => {
  server = await startServer()
})
after(() => server?.stop())

/** A run of a second or two with events of most kinds, and text of more than one byte for a character. */
const script = `
/slow 20
/think Schöne Grüße 世界 are what the user wants to hear 🙂 I think
/say One moment, 少々お待ちください, I look it up …
/call progress {"steps":5}
/call remember {"key":"città","value":"Forlì"}
/call fail {"message":"naïve"}
/then
/slow 20
/say Voilà: the quick brown fox jumps over the lazy dog, 🦊 → 🐶, and that is all that there is to say about it.`

const ask = (content) => ({ session_id: randomUUID(), run_id: randomUUID(), messages: [{ role: 'user', content }] })

/** What a client of a broken connection goes through, up to a cut between the last event and the end of the stream. */
const cuts = [
  inLine(2, 'data'), atByte(0), atByte(0), atByte(40), inLine(1, 'id'), afterEvent(1), inLine(1, 'data'), beforeId(2),
  atByte(0), inCharacter(1), inCharacter(2), inLine(2, 'event'), afterEvent(3), beforeId(1), atByte(300), inLine(3, 'id'),
  inCharacter(3), atByte(900), afterEvent(5), atByte(0), inLine(12, 'data'), afterEvent(1),
  afterEvent(20), within('messages_snapshot'), atByte(1500), within('run_finished'), afterEvent(1),
]

const terminal = new Set(['run_finished', 'run_error'])

/** Checks that a client received the whole run, each event once: [{ id, kind, data }]. */
async function checkWhole(received, { session_id, run_id }) {
  assert.deepEqual(received.map((e) => e.id), received.map((_, i) => i + 1))
  assert.deepEqual(received, await log(server.url, run_id))
  assert.equal(received[0].kind, 'run_started')
  assert.equal(received.filter((e) => terminal.has(e.kind)).length, 1)
  assert.equal(received.at(-1).data.status, 'completed')

  const heard = {}
  for (const { kind, data } of received) {
    if (/^(text|reasoning)_message_content$/.test(kind)) heard[data.message_id] = (heard[data.message_id] ?? '') + data.delta
  }
  const { items } = await call(`${server.url}/v1/sessions/${session_id}/messages`)
  const stored = items.filter((m) => ['assistant', 'reasoning'].includes(m.role)).map((m) => [m.id, m.content])
  assert.equal(stored.length, 3)
  assert.deepEqual(heard, Object.fromEntries(stored))
}

/** A run's state, once it has ended. */
async function ended(run) {
  for (;;) {
    const { status } = await call(`${server.url}/v1/runs/${run}`)
    if (status !== 'running') return status
    await pause(10)
  }
}

const options = { timeout: 25_000 }

test('eventsource gets every event once, however often it is cut off', options, async (t) => {
  const body = ask(script)
  await call(`${server.url}/v1/runs/start`, body)
  const every = [afterId(1), afterId(2), ...cuts]
  const proxy = await startProxy(server.url, every)
  t.after(proxy.stop)

  const received = []
  const asked = [] // each Last-Event-ID
  let opened = 0
  await new Promise((resolve, reject) => {
    const source = new EventSource(`${proxy.url}/v1/runs/${body.run_id}/events`, {
      async fetch(url, init) {
        const headers = { 'Last-Event-ID': '0', ...init.headers } // at first it has none: all of the run
        asked.push(headers['Last-Event-ID'])
        const response = await fetch(url, { ...init, headers })
        return new Response(sooner(response.body), response)
      },
    })
    t.after(() => source.close())
    for (const kind of kinds) {
      source.addEventListener(kind, (e) => received.push({ id: Number(e.lastEventId), kind, data: JSON.parse(e.data) }))
    }
    source.addEventListener('open', () => {
      // It comes back after the end, as if it had been cut off: there must be nothing more, each time.
      if (terminal.has(received.at(-1)?.kind) && ++opened === 3) resolve(source.close())
    })
    source.addEventListener('error', (e) => {
      if (e.data || source.readyState === EventSource.CLOSED) reject(new Error(e.data ?? e.message))
    })
  })

  await checkWhole(received, body)
  assert.equal(proxy.made, every.length)
  assert.equal(asked[0], '0')
  assert.equal(asked.at(-1), String(received.length))
})

/** A stream with a wish before it that a client should come back at once, not after its usual three seconds. */
function sooner(stream) {
  const { readable, writable } = new TransformStream({
    start: (controller) => controller.enqueue(new TextEncoder().encode('retry: 5\n\n')),
  })
  stream.pipeTo(writable).catch(() => {}) // the reader hears of it
  return readable
}

const kinds = [
  'run_started', 'run_finished', 'run_error', 'text_message_start', 'text_message_content', 'text_message_end', 'reasoning_start',
  'reasoning_end', 'reasoning_message_start', 'reasoning_message_content', 'reasoning_message_end', 'reasoning_signature',
  'tool_call_start', 'tool_call_args', 'tool_call_end', 'tool_call_result', 'tool_call_error', 'activity_delta', 'state_snapshot',
  'state_delta', 'messages_snapshot',
]

test('fetch-event-source gets every event once, however often it is cut off', options, async (t) => {
  const body = ask(script)
  await call(`${server.url}/v1/runs/start`, body)
  const every = [atByte(0), atByte(100), ...cuts]
  const proxy = await startProxy(server.url, every)
  t.after(proxy.stop)

  const received = []
  await fetchEventSource(`${proxy.url}/v1/runs/${body.run_id}/events`, {
    headers: { 'last-event-id': '0' }, // all of the run, and from then on what it read last
    onmessage(e) {
      if (e.data) received.push({ id: Number(e.id), kind: e.event, data: JSON.parse(e.data) })
    },
    onerror: () => 5, // milliseconds until it tries again
  })
  await checkWhole(received, body)
  assert.equal(proxy.made, every.length)
})

test('fetch-event-source starts an attached run and gets every event once', options, async (t) => {
  const body = ask(script)
  const proxy = await startProxy(server.url, [])
  t.after(proxy.stop)
  const received = []
  let closed = 0
  await post(proxy.url, body, {
    onmessage(e) {
      if (e.data) received.push({ id: Number(e.id), kind: e.event, data: JSON.parse(e.data) })
    },
    onclose: () => closed++,
  })
  await checkWhole(received, body)
  assert.equal(closed, 1)
})

test('an attached run that is cut off is cancelled, and the second request for it refused', options, async (t) => {
  const body = ask('/call sleep {"ms":3600000}')
  const proxy = await startProxy(server.url, [inLine(5, 'data')])
  t.after(proxy.stop)
  const received = []
  await assert.rejects(
    post(proxy.url, body, {
      onmessage: (e) => received.push(e.event),
      onerror(e) {
        if (proxy.made && /content-type/.test(e.message)) throw e // not a stream: an answer 400011
        return 5
      },
    }),
    /Actual: application\/json/,
  )
  assert.deepEqual(received, ['run_started', 'state_snapshot', 'tool_call_start', 'tool_call_args'])
  assert.equal(await ended(body.run_id), 'cancelled')
  assert.equal((await log(server.url, body.run_id)).at(-1).data.status, 'cancelled')
})

const post = (url, body, init) =>
  fetchEventSource(`${url}/v1/runs`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body), ...init,
  })

test('a fetch that is aborted cancels its run', options, async () => {
  const body = ask('/slow 20\n/say ' + 'word '.repeat(100_000))
  const controller = new AbortController()
  const response = await fetch(`${server.url}/v1/runs`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body), signal: controller.signal,
  })
  let text = ''
  await assert.rejects(async () => {
    for await (const chunk of response.body) {
      text += Buffer.from(chunk).toString()
      if (text.includes('event: text_message_content')) controller.abort()
    }
  }, { name: 'AbortError' })
  assert.equal(await ended(body.run_id), 'cancelled')

  const events = await log(server.url, body.run_id)
  assert.equal(events.at(-1).data.status, 'cancelled')
  const { items } = await call(`${server.url}/v1/sessions/${body.session_id}/messages`)
  assert.deepEqual(items.map((m) => [m.role, m.metadata]), [['assistant', { partial: true }], ['user', null]])
})
