// The runner against examples/server, which is killed, restarted and cut off.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { afterEvent, atByte, inCharacter, inLine, startProxy } from '../../../httpapi/clienttest/proxy.js'
import { call, startServer } from '../../../httpapi/clienttest/server.js'
import { runId, sessionId } from '../dist/index.js'
import { Page, signal, until } from './page.js'

let server
before(async () => {
  server = await startServer(['-store', 'sqlite:test.db', '-ledger', 'ledger.txt', '-on-disconnect', 'keep'])
})
after(() => server?.stop())

const options = { timeout: 120_000 }

/** An answer of two seconds, with reasoning, a tool and characters of several bytes. */
const slow = [
  '/slow 30', '/think Schöne Grüße 世界 are what the user wants to hear 🙂 I think', '/say One moment, 少々お待ちください …', '/call progress {"steps":3}',
  '/then', '/slow 30', '/say Voilà: the quick brown fox jumps over the lazy dog, 🦊 → 🐶, and that is all that there is to say about it.',
].join('\n')

const runs = async (page) => (await call(`${server.url}/v1/sessions/${sessionId(page.threadId)}/runs`)).items
const statuses = async (page) => (await runs(page)).map((r) => r.status)

/** Checks that a page shows what the store has of its thread, under the same ids. */
async function checkShown(page) {
  const kept = (await call(`${server.url}/v1/sessions/${sessionId(page.threadId)}/messages`)).items
  const text = (m) => (m.role === 'user' ? m.content.map((b) => b.value).join('') : (m.content ?? ''))
  const byId = (a, b) => (a.id < b.id ? -1 : 1)
  assert.deepEqual(
    page.shown.map((m) => ({ id: m.id, role: m.role, content: m.content ?? '' })).sort(byId),
    kept.map((m) => ({ id: m.metadata?.ag_ui_id ?? m.id, role: m.role, content: text(m) })).sort(byId))
  assert.equal(new Set(page.shown.map((m) => m.id)).size, page.shown.length)
  const terminal = page.events.filter((e) => e.type === 'RUN_FINISHED' || e.type === 'RUN_ERROR')
  assert.equal(terminal.length, page.events.filter((e) => e.type === 'RUN_STARTED').length)
}

/** Waits for the first text of an answer: the middle of a run. */
function begun(run) {
  const { promise, set } = signal()
  return [promise, run({ onTextMessageContentEvent: () => void set() })]
}

test('ids are the ones that the server makes', () => {
  assert.equal(sessionId('thread-1'), 'ee84050b-1b17-5fe8-9f71-0983f1fceccc')
  const id = 'f81d4fae-7dec-11d0-a765-00a0c91e6bf6'
  for (const spelling of [id, id.toUpperCase(), `{${id}}`, `urn:uuid:${id}`, id.replaceAll('-', '')]) assert.equal(sessionId(spelling), id)
  for (const text of ['00000000-0000-0000-0000-000000000000', `${id} `, `(${id})`, '', 'café/№ 7']) assert.match(sessionId(text), /^[0-9a-f]{8}-[0-9a-f]{4}-5/)
  assert.equal(runId('thread-1', id), id)
  assert.notEqual(runId('thread-1', 'run-1'), runId('thread-2', 'run-1'))
})

test('a thread is the same after a restart of the runtime and of the server', options, async () => {
  const page = new Page(server.url, `café/№ 7 ${randomUUID()}`)
  await page.say('/think Hm\n/say One moment\n/call weather {"city":"Oslo"}\n/then\n/call remember {"key":"city","value":"Oslo"}\n/then\n/say Done', { runId: 'run-1' })
  await page.say('hello again', { runId: 'run-2' })
  await checkShown(page)
  assert.equal((await runs(page))[1].id, runId(page.threadId, 'run-1'))
  await server.kill()
  await server.start()
  const again = new Page(server.url, page.threadId)
  await again.load()
  assert.deepEqual(again.shown, page.shown)
  assert.deepEqual(again.state, { city: 'Oslo' })
  assert.deepEqual(again.events.map((e) => e.type), ['RUN_STARTED', 'STATE_SNAPSHOT', 'MESSAGES_SNAPSHOT', 'RUN_FINISHED'])
  await again.say('what now?')
  assert.equal(again.messages.at(-1).content, 'You said: what now?')
  await checkShown(again)
})

test('a thread that the server does not have is empty', options, async () => {
  const page = new Page(server.url)
  await page.load()
  assert.deepEqual([page.events, page.messages], [[], []])
  assert.equal(await page.isBusy(), false)
  assert.equal(await page.stop(), false)
})

test('a page that is loaded in the middle of a run gets all of it', options, async () => {
  const first = new Page(server.url)
  await first.say('hello')
  const [started, run] = begun((s) => first.say(slow, {}, s))
  await started
  const second = new Page(server.url, first.threadId)
  assert.equal(await second.isBusy(), true)
  const loaded = second.load()
  await Promise.all([run, loaded])
  assert.equal(second.last.type, 'RUN_FINISHED')
  assert.deepEqual(second.shown, first.shown)
  assert.equal(await second.isBusy(), false)
  await checkShown(second)
})

test('stop ends the run in the store, whoever asks for it', options, async () => {
  const page = new Page(server.url)
  const id = randomUUID()
  const [started, run] = begun((s) => page.say('/slow 20\n/say ' + 'word '.repeat(10_000), { runId: id }, s))
  await started
  const other = new Page(server.url, page.threadId)
  assert.equal(await other.stop(randomUUID()), false, 'that is another run')
  assert.equal(await other.stop(id), true)
  await run
  assert.equal(page.last.type, 'RUN_FINISHED')
  assert.deepEqual(await statuses(page), ['cancelled'])
  assert.equal(await other.stop(id), false)
  await checkShown(page) // with the first part of the answer
  await page.say('hello again')
  assert.deepEqual(await statuses(page), ['completed', 'cancelled'])
})

test('stop right after the start does not miss the run', options, async () => {
  const page = new Page(server.url)
  page.fetch = async (...request) => {
    await new Promise((resolve) => setTimeout(resolve, 500)) // so long it is on its way
    return fetch(...request)
  }
  const run = page.say('/call sleep {"ms":3600000}')
  await until(() => page.isBusy())
  assert.equal(await page.stop(), true)
  await run
  assert.deepEqual(await statuses(page), ['cancelled'])
})

test('an answer goes on when the server is killed and started again', options, async () => {
  const page = new Page(server.url)
  await page.say('hello')
  const { promise: called, set } = signal()
  const line = randomUUID()
  const script = `/think Let me see\n/say I write it down\n/call ledger {"line":"${line}","ms":1}\n/call ledger {"line":"${line}-2","ms":1500}\n/then\n/slow 20\n/say It is written down, and here is the rest of it`
  const run = page.say(script, {}, { onToolCallResultEvent: () => void set() })
  await called
  const [started, loaded] = begun((s) => (page.other = new Page(server.url, page.threadId)).load(s))
  await started
  await server.kill()
  assert.equal(await Promise.race([run, loaded, new Promise((r) => setTimeout(r, 200, 'on'))]), 'on', 'nobody gives up')
  await server.start()
  await Promise.all([run, loaded])
  for (const p of [page, page.other]) {
    assert.equal(p.last.type, 'RUN_FINISHED')
    assert.equal(p.messages.at(-1).content, 'It is written down, and here is the rest of it')
    await checkShown(p)
  }
  assert.deepEqual(await statuses(page), ['completed', 'completed'])
  const lines = readFileSync(join(server.dir, 'ledger.txt'), 'utf8').split('\n')
  assert.equal(lines.filter((l) => l.startsWith(`${line}\t`)).length, 1, 'what was done is not done again')
})

test('an answer goes on when the runtime is killed', options, async () => {
  const page = new Page(server.url)
  const child = spawn(process.execPath, [fileURLToPath(new URL('runtime.js', import.meta.url)), server.url, page.threadId, slow], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(createInterface(child.stdout), 'line') // it has heard the first text
  child.kill('SIGKILL')
  await once(child, 'exit')
  assert.equal(await page.isBusy(), true)
  await page.load()
  assert.equal(page.last.type, 'RUN_FINISHED')
  assert.match(page.messages.at(-1).content, /^Voilà: .* about it\.$/)
  assert.deepEqual(await statuses(page), ['completed'])
  await checkShown(page)
})

test('connections that are cut anywhere are made again, and nothing is shown twice', options, async (t) => {
  const cuts = [
    atByte(0), atByte(40), afterEvent(1), inLine(1, 'data'), afterEvent(4), inCharacter(1), afterEvent(8), inCharacter(3), inLine(9, 'data'),
    afterEvent(12), afterEvent(14), atByte(2000), afterEvent(20), inCharacter(9), afterEvent(26), atByte(6000), afterEvent(40),
  ]
  const proxy = await startProxy(server.url, cuts)
  t.after(proxy.stop)
  const page = new Page(proxy.url)
  await page.say(slow)
  assert.equal(page.last.type, 'RUN_FINISHED')
  assert.ok(proxy.made >= 6, `${proxy.made} cuts`)
  assert.equal(page.messages.find((m) => m.role === 'reasoning').content, 'Schöne Grüße 世界 are what the user wants to hear 🙂 I think')
  assert.ok(page.messages.filter((m) => m.role === 'activity').length <= 1) // it is gone if the run ended in between
  await checkShown(page)
  assert.deepEqual(await statuses(page), ['completed'], 'it was one run')
})

test('so is the connection of a page that only looks', options, async (t) => {
  const page = new Page(server.url)
  const [started, run] = begun((s) => page.say(slow, {}, s))
  await started
  const cuts = [afterEvent(6), afterEvent(8), atByte(100), inCharacter(2), afterEvent(12), atByte(0), afterEvent(24)]
  const proxy = await startProxy(server.url, cuts)
  t.after(proxy.stop)
  const other = new Page(proxy.url, page.threadId)
  await Promise.all([run, other.load()])
  assert.deepEqual(other.shown, page.shown)
  assert.ok(proxy.made > 2, `${proxy.made} cuts`)
  await checkShown(other)
})

test('a connection that says nothing for too long is made again', options, async () => {
  const page = new Page(server.url, undefined, { silence: 200 })
  await page.say('/say I wait\n/call sleep {"ms":3000}\n/then\n/say done')
  assert.equal(page.messages.at(-1).content, 'done')
  assert.ok(page.events.filter((e) => e.type === 'MESSAGES_SNAPSHOT').length >= 2, 'it was made again: there is one at the end anyway')
  await checkShown(page)
})

test('a run that fails is an error once, and then history', options, async () => {
  const page = new Page(server.url)
  await page.say('/say One moment\n/error the provider is down')
  assert.deepEqual([page.last.type, page.last.code], ['RUN_ERROR', 'model_error'])
  const again = new Page(server.url, page.threadId)
  await again.load()
  assert.equal(again.last.type, 'RUN_FINISHED')
  await again.say('are you there?')
  assert.equal(again.messages.at(-1).content, 'You said: are you there?')
  await checkShown(again)
})

test('a server that is away: what was asked for fails with a reason, and nothing else does', options, async (t) => {
  const proxy = await startProxy(server.url, [])
  await proxy.stop() // nobody listens there now
  const page = new Page(proxy.url, undefined, { patience: 300 })
  await page.say('hello')
  assert.deepEqual([page.last.type, page.last.code], ['RUN_ERROR', 'unreachable'])
  assert.match(page.last.message, /cannot be reached.*ECONNREFUSED/)
  await page.load()
  assert.match(page.last.message, /ECONNREFUSED/)
  await assert.rejects(page.stop(), /PUT|GET.*ECONNREFUSED/)
  await assert.rejects(page.isBusy(), /ECONNREFUSED/)

  const patient = new Page(server.url)
  await server.kill()
  const run = patient.say('hello')
  await server.start()
  await run
  assert.equal(patient.messages.at(-1).content, 'You said: hello')
  await checkShown(patient)
})

test('a request that is refused is an error with what is wrong', options, async () => {
  const page = new Page(server.url)
  await page.say('hello', { tools: [{ name: 'no name', description: '', parameters: {} }] })
  assert.equal(page.last.type, 'RUN_ERROR')
  assert.match(page.last.message, /422001.*tools\[0\]\.name/)
  const wrong = new Page(server.url)
  wrong.runner.run({ threadId: 't', agent: {}, input: {} }).subscribe((e) => wrong.events.push(e))
  await until(() => wrong.last)
  assert.match(wrong.last.message, /no HttpAgent/)
})

test('a busy thread: the other message waits, and a page that looks sees both answers', options, async () => {
  const page = new Page(server.url)
  const [started, run] = begun((s) => page.say('/slow 30\n/say one two three four five six seven eight nine ten', {}, s))
  await started
  const other = new Page(server.url, page.threadId)
  const second = other.say('and me?')
  await until(async () => (await runs(page)).length === 2)
  const third = new Page(server.url, page.threadId)
  await Promise.all([run, second, third.load()])
  assert.deepEqual(third.messages.map((m) => m.content), [
    '/slow 30\n/say one two three four five six seven eight nine ten', 'one two three four five six seven eight nine ten', 'and me?', 'You said: and me?',
  ])
  assert.equal(third.events.filter((e) => e.type === 'RUN_STARTED').length, 1, 'it is one run for the page')
  await checkShown(third)
})

test('a question is asked again after a restart, and answered', options, async () => {
  const page = new Page(server.url)
  await page.say('/call approve {"action":"launch"}')
  await server.kill()
  await server.start()
  const again = new Page(server.url, page.threadId)
  await again.load()
  assert.equal(again.last.outcome.type, 'interrupt')
  assert.deepEqual(again.pendingInterrupts, page.pendingInterrupts)
  const [{ id }] = again.pendingInterrupts
  await again.go({ resume: [{ interruptId: id, status: 'resolved', payload: { approved: true } }] })
  assert.equal(again.messages.at(-1).content, 'approve: did launch')
  await checkShown(again)
})

test('an answer has the id of the run that asked, as CopilotKit gives it, and can be stopped by it', options, async () => {
  const page = new Page(server.url)
  const id = randomUUID()
  await page.say('/call approve {"action":"launch"}\n/then\n/call sleep {"ms":3600000}', { runId: id })
  const [{ id: question }] = page.pendingInterrupts
  page.addMessage({ id: randomUUID(), role: 'tool', toolCallId: question, content: '{"approved":true}' }) // it does this, too
  const answer = page.go({ runId: id, resume: [{ interruptId: question, status: 'resolved', payload: { approved: true } }] })
  await until(async () => (await statuses(page)).join() === 'running,interrupted')
  assert.equal(await page.stop(id), true)
  await answer
  assert.deepEqual(await statuses(page), ['cancelled', 'interrupted'])
  assert.ok(page.messages.some((m) => m.content === 'did launch'))
  await checkShown(page)
})

test('a frontend tool that a reload has left without an answer does not hold up the thread', options, async () => {
  const look = { name: 'look', description: 'Looks.', parameters: { type: 'object', properties: {} } }
  const page = new Page(server.url)
  await page.say('/call look {}', { tools: [look] })
  const again = new Page(server.url, page.threadId)
  await again.load()
  assert.equal(again.messages.at(-1).toolCalls[0].function.name, 'look')
  await again.say('never mind', { tools: [look] })
  assert.equal(again.messages.at(-1).content, 'You said: never mind')
  await checkShown(again)
})

test('who no longer looks does not end the run', options, async () => {
  const page = new Page(server.url)
  const [started, run] = begun((s) => page.say(slow, {}, s))
  await started
  await page.detachActiveRun()
  await run
  await until(async () => (await statuses(page))[0] === 'completed')
})

test('headers are those that the options say, and those of the request', options, async () => {
  const mine = { headers: () => ({ 'x-tenant-id': 'somebody else' }) }
  const page = new Page(server.url)
  await page.say('hello')
  const stranger = new Page(server.url, page.threadId, mine)
  await stranger.load()
  assert.deepEqual(stranger.messages, [])
  const seen = []
  const owner = new Page(server.url, page.threadId, mine)
  owner.runner.connect({ threadId: page.threadId, headers: { 'x-tenant-id': 'default' } }).subscribe((e) => seen.push(e))
  await until(() => seen.at(-1)?.type === 'RUN_FINISHED')
  assert.equal(seen.find((e) => e.type === 'MESSAGES_SNAPSHOT').messages.length, 2)
})
