import { EventType, HttpAgent, type AbstractAgent, type BaseEvent, type RunAgentInput } from '@ag-ui/client'
import { setTimeout as pause } from 'node:timers/promises'
import { Observable, ReplaySubject } from 'rxjs'

import { backoff, failure, follow, reason, RefusedError, type Patience } from './follow.js'
import { answerId, runId, sessionId } from './ids.js'
import { isTerminal, type AnyEvent } from './open.js'

export interface EverstepAgentRunnerOptions {
  /** Where the server is: what /v1 is mounted on, such as http://127.0.0.1:8080. */
  url: string
  /** Where its AG-UI endpoint is. Default: /ag-ui of url. */
  agentUrl?: string
  /**
   * Headers of the requests that the runner itself makes, such as the tenant's. A function is asked each time: CopilotKit
   * says nothing of the request for which a run is stopped. Those of a request to connect are added.
   */
  headers?: Record<string, string> | (() => Record<string, string>)
  /** Milliseconds for which the server may be away, during a run too. Default: 60000. */
  patience?: number
  /** Milliseconds for which a connection may be silent; more than the KeepAlive of the server. Default: 60000. */
  silence?: number
}

/** A run as /v1 has it. */
interface Run {
  id: string
  status: 'running' | 'interrupted' | 'completed' | 'failed' | 'cancelled'
}

/** A run that was asked for, while nobody knows whether the server has it. */
interface Pending {
  threadId: string
  accepted: Promise<void>
}

/**
 * Runs the agents of CopilotKit's runtime on an everstep server. It is an AgentRunner of @copilotkit/runtime/v2.
 *
 * The server has the threads, so there is nothing in this process that must not be lost: runs, history and what can be
 * stopped are the same after a restart, and in every other process. No method ever ends the process by a rejection
 * that nobody handles.
 */
export class EverstepAgentRunner {
  readonly #v1: string
  readonly #agentUrl: string
  readonly #headers: () => Record<string, string>
  readonly #patience: Patience
  readonly #pending = new Set<Pending>()

  constructor({ url, agentUrl, headers = {}, patience = 60_000, silence = 60_000 }: EverstepAgentRunnerOptions) {
    const base = url.replace(/\/+$/, '')
    this.#v1 = `${base}/v1`
    this.#agentUrl = agentUrl ?? `${base}/ag-ui`
    this.#headers = typeof headers === 'function' ? headers : () => headers
    this.#patience = { away: patience, silent: silence }
  }

  /**
   * Runs the agent, which must be an HttpAgent of the server's AG-UI endpoint. A connection that is cut is made again:
   * the same request means the same run. The run goes on if nobody listens. A busy thread is the server's to decide.
   */
  run({ threadId, agent, input }: { threadId: string; agent: AbstractAgent; input: RunAgentInput }): Observable<BaseEvent> {
    const events = new ReplaySubject<BaseEvent>()
    let over = false
    const next = (event: BaseEvent) => {
      over = isTerminal(event) // middleware of the agent may let several runs follow each other
      events.next(structuredClone(event)) // the agent goes on to change the messages of a snapshot
    }
    let settle = () => {}
    const pending = { threadId, accepted: new Promise<void>((resolve) => (settle = resolve)) }
    this.#pending.add(pending)
    const accepted = () => {
      this.#pending.delete(pending)
      settle()
    }
    const run = async () => {
      if (!(agent instanceof Object && 'fetch' in agent)) throw new Error('everstep: the agent is no HttpAgent: give the runtime new HttpAgent({ url }) with the AG-UI endpoint of the server')
      const http = agent as HttpAgent
      http.fetch = this.#durable(http.fetch, accepted)
      await http.runAgent(input, { onEvent: ({ event }) => next(event) })
    }
    run()
      .catch((error) => over || next(failure(reason(error))))
      .finally(() => {
        accepted()
        if (!over) next(failure('the run has no end'))
        events.complete()
      })
    return events.asObservable()
  }

  /** Wraps a fetch such that the body of its answers does not break. */
  #durable(fetch: HttpAgent['fetch'], accepted: () => void): HttpAgent['fetch'] {
    return async (url, init) => {
      const left = new AbortController()
      const gone = init.signal ? AbortSignal.any([init.signal, left.signal]) : left.signal
      const events = follow((signal, begun) => fetch(url, { ...init, signal, body: begun ? restating(init.body) : init.body }), gone, this.#patience)
      let event: IteratorResult<AnyEvent>
      try {
        event = await events.next()
      } catch (error) {
        if (!(error instanceof RefusedError)) throw error
        return new Response(error.body, { status: error.status, headers: { 'content-type': error.contentType } })
      } finally {
        accepted()
      }
      const utf8 = new TextEncoder()
      const body = new ReadableStream<Uint8Array>({
        async pull(controller) {
          if (event.done) return controller.close()
          controller.enqueue(utf8.encode(`data: ${JSON.stringify(event.value)}\n\n`))
          event = await events.next()
        },
        cancel() {
          left.abort()
        },
      })
      return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
    }
  }

  /**
   * Tells where the thread is, as one run of snapshots, and goes on with what runs in it, and with what runs then. A
   * thread that the server does not have is empty.
   */
  connect({ threadId, headers }: { threadId: string; headers?: Record<string, string> }): Observable<BaseEvent> {
    return new Observable((observer) => {
      const gone = new AbortController()
      const connect = async () => {
        for await (const event of this.#thread(threadId, headers ?? {}, gone.signal)) observer.next(event)
      }
      connect()
        .catch((error) => gone.signal.aborted || observer.next(failure(reason(error))))
        .finally(() => observer.complete())
      return () => gone.abort()
    })
  }

  async *#thread(threadId: string, headers: Record<string, string>, gone: AbortSignal): AsyncGenerator<AnyEvent> {
    // The oldest that runs, else the newest: a run may begin and end between two looks.
    const current = async (but?: string) =>
      (await this.#running(threadId, headers, gone)).filter((run) => run.id !== but).at(-1) ?? (await this.#runs(threadId, 'per_page=1', headers, gone))[0]
    let run = await current()
    for (let first = true; run; first = false) {
      const { id, status } = run
      const body = JSON.stringify({ threadId, runId: id, messages: [] })
      const ask = (signal: AbortSignal) =>
        fetch(this.#agentUrl, { method: 'POST', headers: { ...this.#headers(), ...headers, ...streams }, body, signal })
      run = undefined
      for await (const event of follow(ask, gone, this.#patience)) {
        if (event.type === EventType.RUN_STARTED && !first) continue
        if (isTerminal(event)) {
          const next = await current(id)
          if (next && next.id !== id) {
            run = next
            break // one waited, or the run was answered: all of it is one run for the client
          }
        }
        // That a run failed some time ago is no news: clients would take it for the failure of this request.
        const old = event.type === EventType.RUN_ERROR && status !== 'running'
        yield old ? { type: EventType.RUN_FINISHED, threadId, runId: id } : event
      }
    }
  }

  /** Reports whether something runs in the thread, in whatever process it was started. */
  async isRunning({ threadId }: { threadId: string }): Promise<boolean> {
    const starting = [...this.#pending].some((p) => p.threadId === threadId)
    return starting || (await this.#running(threadId)).length > 0
  }

  /**
   * Cancels what runs in the thread, or the one run. It reports whether there was such a run. It rejects if the server
   * cannot be reached within the patience.
   */
  async stop({ threadId, runId: id }: { threadId: string; runId?: string }): Promise<boolean> {
    // A run that is on its way to the server would go on.
    await Promise.all([...this.#pending].filter((p) => p.threadId === threadId).map((p) => p.accepted))
    const running = await this.#running(threadId)
    const chosen = id === undefined ? running : running.filter((run) => known(runId(threadId, id), run.id))
    for (const run of chosen) await this.#call('PUT', `/runs/${run.id}/cancel`) // the newest first: the others wait for the oldest
    return chosen.length > 0
  }

  /** What runs in a thread or waits to, newest first. */
  #running(threadId: string, headers?: Record<string, string>, gone?: AbortSignal): Promise<Run[]> {
    return this.#runs(threadId, 'statuses[]=running', headers, gone)
  }

  async #runs(threadId: string, query: string, headers?: Record<string, string>, gone?: AbortSignal): Promise<Run[]> {
    const page = await this.#call('GET', `/sessions/${sessionId(threadId)}/runs?${query}`, headers, gone)
    return (page as { items: Run[] } | undefined)?.items ?? []
  }

  /** Calls /v1 until the server answers. It returns nothing if there is no such thing. */
  async #call(method: string, path: string, headers: Record<string, string> = {}, gone?: AbortSignal): Promise<unknown> {
    const until = Date.now() + this.#patience.away
    let cut: unknown
    for (let failures = 0; ; failures++) {
      const limit = AbortSignal.timeout(Math.max(1, Math.min(this.#patience.silent, until - Date.now())))
      let final: unknown
      try {
        const response = await fetch(this.#v1 + path, {
          method, headers: { ...this.#headers(), ...headers }, signal: gone ? AbortSignal.any([gone, limit]) : limit,
        })
        const text = await response.text()
        if (response.ok) return text && JSON.parse(text)
        if (response.status === 404) return undefined
        cut = new Error(`HTTP ${response.status}: ${text}`)
        if (response.status < 500 && response.status !== 429) throw (final = cut)
      } catch (error) {
        if (error === final || gone?.aborted) throw error
        if (!limit.aborted || cut === undefined) cut = error // that our time is over is no reason, if there was one
      }
      if (Date.now() >= until) throw new Error(`everstep: ${method} ${this.#v1}${path}: ${reason(cut)}`, { cause: cut })
      await pause(Math.min(backoff(failures), Math.max(1, until - Date.now())), undefined, gone && { signal: gone })
    }
  }
}

/** Reports whether a client knows a run by the id: CopilotKit gives the answers to a run's questions the id of the run. */
function known(id: string, run: string): boolean {
  for (let answers = 0; answers <= 100; answers++, id = answerId(id)) if (id === run) return true
  return false
}

/** The request for a run that the server has, from a client that wants to be told the conversation too. */
const restating = (body: unknown) => JSON.stringify({ ...JSON.parse(String(body)), messages: [] })

const streams = { 'content-type': 'application/json', accept: 'text/event-stream' }
