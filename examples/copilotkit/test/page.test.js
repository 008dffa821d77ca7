// The page in a browser, with CopilotKit's runtime in a process of its own and the agent in another.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { after, afterEach, before, beforeEach, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { call, startServer } from '../../../httpapi/clienttest/server.js'

const browserPath = process.env.CHROMIUM ?? '/usr/bin/chromium'
const missing = !existsSync(browserPath) ? 'there is no chromium' : !existsSync(new URL('../node_modules', import.meta.url)) && 'npm run setup installs what it needs'
const skip = !process.env.CI && missing

/** How long to wait for what must happen, on a machine that has much else to do. */
const patience = 120_000

describe('the page', { skip }, () => {
  let agent, runtime, browser, page, trouble
  before(async () => {
    const { chromium } = await import('playwright-core')
    agent = await startServer([], 'copilotkit')
    runtime = await startRuntime(agent.url)
    browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox'], timeout: patience })
  })
  after(async () => {
    await browser?.close()
    await runtime?.kill()
    await agent?.stop()
  })
  beforeEach(async () => {
    page = await browser.newPage()
    page.setDefaultTimeout(patience)
    trouble = []
    page.on('pageerror', (e) => trouble.push(e))
    await page.goto(runtime.url)
  })
  afterEach(async () => {
    await page.close()
    assert.deepEqual(trouble, [])
  })

  const options = { timeout: 5 * patience }

  const thread = () => new URL(page.url()).searchParams.get('thread')
  const runs = async () => (await call(`${agent.url}/v1/sessions/${thread()}/runs`)).items
  const stored = async () => (await call(`${agent.url}/v1/sessions/${thread()}/messages`)).items.reverse()
  const answers = () => page.getByTestId('copilot-assistant-message')
  const suggest = (title) => page.getByTestId('copilot-suggestion').filter({ hasText: title }).click()

  async function say(text) {
    await page.getByTestId('copilot-chat-textarea').fill(text)
    await page.getByTestId('copilot-chat-textarea').press('Enter')
  }

  /** Waits until the page shows a text among the answers. */
  const shows = (text) => answers().filter({ hasText: text }).last().waitFor()

  /** Waits for something of the store. */
  async function until(what) {
    for (const end = Date.now() + patience; ; await new Promise((resolve) => setTimeout(resolve, 50))) {
      const value = await what()
      if (value) return value
      assert.ok(Date.now() < end, `not in time: ${what}`)
    }
  }

  test('chat, and the conversation is still there after a reload', options, async () => {
    await say('hello')
    await shows('You said: hello')
    await page.reload()
    await shows('You said: hello')
    await say('and again')
    await shows('You said: and again')
    assert.equal(await answers().count(), 2)
    assert.deepEqual((await stored()).map((m) => m.role), ['user', 'assistant', 'user', 'assistant'])
  })

  test('an answer goes on when the page is loaded anew in the middle of it', options, async () => {
    // On a slow machine the story may be over before the page is there again. Then it is told more slowly.
    for (let ms = 50, n = 0, told = false; !told; ms *= 3, n++) {
      assert.ok(ms < 1000, 'no story was slow enough')
      await say(`/slow ${ms}\n/say ${'Once upon a time. '.repeat(20)}The end.`)
      const answer = answers().nth(n)
      await answer.filter({ hasText: 'Once upon a time' }).waitFor()
      await page.reload()
      await answer.filter({ hasText: 'Once upon a time' }).waitFor()
      told = (await runs())[0].status === 'running'
      await answer.filter({ hasText: 'The end.' }).waitFor()
      assert.equal(await answers().count(), n + 1)
      assert.equal((await answer.innerText()).match(/Once upon/g).length, 20)
      await until(async () => (await runs())[0].status === 'completed')
    }
  })

  test('stop cancels the run in the store, also after a reload', options, async () => {
    for (const reload of [false, true]) {
      await say('/slow 100\n/say ' + 'word '.repeat(1000))
      await shows('word word')
      await until(async () => (await runs())[0].status === 'running')
      if (reload) {
        await page.reload()
        await answers().nth(1).filter({ hasText: 'word word' }).waitFor()
      }
      await page.getByTestId('copilot-send-button').click() // which is the stop button now
      await until(async () => (await runs())[0].status === 'cancelled')
    }
    await say('are you there?')
    await shows('You said: are you there?')
    assert.deepEqual((await runs()).map((r) => r.status), ['completed', 'cancelled', 'cancelled'])
  })

  test('a frontend tool', options, async () => {
    await suggest('Paint the page')
    await shows('I like that color.')
    assert.equal(await page.locator('main').evaluate((e) => e.style.background), 'honeydew')
    const result = (await stored()).find((m) => m.role === 'tool')
    assert.equal(result.content, 'the page is honeydew')
  })

  test('an approval, and one after a reload', options, async () => {
    await suggest('Order')
    const question = page.getByRole('alertdialog')
    await question.filter({ hasText: 'a bicycle' }).waitFor()
    await question.getByText('Approve').click()
    await shows('order: a bicycle is on its way')
    await question.waitFor({ state: 'detached' })
    await say('/call order {"what":"a horse"}')
    await question.filter({ hasText: 'a horse' }).waitFor()
    await page.reload()
    await question.filter({ hasText: 'a horse' }).waitFor()
    await question.getByText('Refuse').click()
    await shows('the user does not want it')
    assert.deepEqual((await runs()).map((r) => r.status), ['completed', 'interrupted', 'completed', 'interrupted'])
  })

  test('notes that page and agent share', options, async () => {
    const notes = page.getByRole('list', { name: 'Notes' })
    await suggest('Take a note')
    await shows('I noted it.')
    assert.deepEqual(await notes.getByRole('listitem').allInnerTexts(), ['buy milk'])
    await page.getByText('Add a note').click()
    await suggest('Take a note')
    await answers().filter({ hasText: 'I noted it.' }).nth(1).waitFor()
    assert.deepEqual(await notes.getByRole('listitem').allInnerTexts(), ['buy milk', 'a note of the page', 'buy milk'])
    await page.reload()
    await notes.getByText('a note of the page').waitFor()
  })

  test('an answer goes on when the agent is killed, and when the runtime is', options, async () => {
    await suggest('Tell a story')
    await shows('Once upon a time')
    await agent.kill()
    await agent.start()
    await shows('The end.')
    assert.equal((await answers().innerText()).match(/Once upon/g).length, 8)

    await suggest('Tell a story')
    await answers().nth(1).filter({ hasText: 'Once upon a time' }).waitFor()
    await runtime.kill()
    await runtime.start()
    trouble = trouble.filter((e) => !/network error/.test(e.message)) // which CopilotKit throws for the connection
    await page.reload()
    await answers().nth(1).filter({ hasText: 'The end.' }).waitFor()
    assert.equal((await answers().nth(1).innerText()).match(/Once upon/g).length, 8)
    assert.deepEqual((await runs()).map((r) => r.status), ['completed', 'completed'])
  })
})

/** Starts server.js; kill ends it at once, and start starts it again where it was. */
async function startRuntime(agent) {
  let child
  const start = async (port) => {
    child = spawn(process.execPath, [fileURLToPath(new URL('../server.js', import.meta.url)), '--agent', agent, '--port', port], {
      stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, DO_NOT_TRACK: '1' },
    })
    const died = once(child, 'exit').then(([code]) => Promise.reject(new Error(`server.js ended with code ${code}`)))
    died.catch(() => {}) // that is for those who wait for its line
    const [line] = await Promise.race([once(createInterface(child.stdout), 'line'), died])
    return line.replace('listening on ', '')
  }
  const url = await start('0')
  return {
    url,
    start: () => start(new URL(url).port),
    async kill() {
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    },
  }
}
