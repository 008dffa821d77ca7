// A page as CopilotKit's looks to a runner: what the client of AG-UI makes of the events, under its strictest rules.
import { randomUUID } from 'node:crypto'

import { AbstractAgent, HttpAgent } from '@ag-ui/client'

import { EverstepAgentRunner } from '../dist/index.js'

export class Page extends AbstractAgent {
  /** A page that is loaded anew has nothing but the id of its thread; and here its runtime is new, too. */
  constructor(url, threadId = randomUUID(), options = {}) {
    super({ threadId })
    this.runner = new EverstepAgentRunner({ url, ...options })
    this.url = `${url}/ag-ui`
    this.events = []
  }

  run(input) {
    const agent = new HttpAgent({ url: this.url, fetch: this.fetch, threadId: input.threadId, initialMessages: input.messages, initialState: input.state })
    return this.runner.run({ threadId: input.threadId, agent, input })
  }

  connect(input) {
    return this.runner.connect({ threadId: input.threadId })
  }

  /** Sends a message, and waits for the end of its run. */
  say(content, parameters, subscriber) {
    this.addMessage({ id: randomUUID(), role: 'user', content })
    return this.go(parameters, subscriber)
  }

  go(parameters, subscriber) {
    return this.runAgent(parameters, this.#heard(subscriber))
  }

  /** Looks where the thread is, and follows what runs in it. */
  load(subscriber) {
    return this.connectAgent({}, this.#heard(subscriber))
  }

  stop(runId) {
    return this.runner.stop({ threadId: this.threadId, runId })
  }

  isBusy() {
    return this.runner.isRunning({ threadId: this.threadId })
  }

  /** What the page shows, without what is gone when it is loaded anew. */
  get shown() {
    return this.messages.filter((m) => m.role !== 'activity').map(({ id, role, content, toolCalls }) => ({ id, role, content, toolCalls }))
  }

  get last() {
    return this.events.at(-1)
  }

  #heard(subscriber = {}) {
    return {
      ...subscriber,
      onEvent: (e) => {
        this.events.push(e.event)
        return subscriber.onEvent?.(e)
      },
      onRunFailed: () => ({ stopPropagation: true }), // the event says it
    }
  }
}

/** A promise, and what fulfils it. */
export function signal() {
  const it = {}
  it.promise = new Promise((resolve) => (it.set = resolve))
  return it
}

/** Waits until something is so. */
export async function until(what, seconds = 60) {
  for (const end = Date.now() + seconds * 1000; ; ) {
    const value = await what()
    if (value) return value
    if (Date.now() > end) throw new Error(`not within ${seconds} s: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
