// The server under test: examples/server with the offline model.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const program = fileURLToPath(new URL('../../examples/server', import.meta.url))

/** Builds and starts a server. It returns its URL, and stop, which waits for its end. */
export async function startServer() {
  const dir = mkdtempSync(join(tmpdir(), 'everstep-'))
  const binary = join(dir, 'server')
  execFileSync('go', ['build', '-o', binary, '.'], { cwd: program, stdio: 'inherit' })
  const child = spawn(binary, ['-addr', '127.0.0.1:0', '-store', 'memory:'], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  const died = ended.then(([code]) => Promise.reject(new Error(`the server ended with code ${code}`)))
  died.catch(() => {}) // that is for those who wait for its line
  const [line] = await Promise.race([once(createInterface(child.stdout), 'line'), died])
  return {
    url: line.replace('listening on ', ''),
    async stop() {
      child.kill('SIGTERM')
      await ended
      rmSync(dir, { recursive: true })
    },
  }
}

/** The JSON that a server answers a request with. */
export async function call(url, body) {
  const init = body && { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
  const response = await fetch(url, init)
  const answer = await response.json()
  if (!response.ok) throw new Error(`${response.status}: ${JSON.stringify(answer)}`)
  return answer
}

/** The events of a run as they are kept, read by nobody's library: [{ id, kind, data }]. */
export async function log(url, run) {
  const response = await fetch(`${url}/v1/runs/${run}/events`, { headers: { 'last-event-id': '0' } })
  const frames = (await response.text()).split('\n\n').filter((frame) => frame.startsWith('event: '))
  return frames.map((frame) => {
    const [, kind, data, id] = frame.match(/^event: (\w+)\ndata: (.*)\nid: (\d+)$/)
    return { id: Number(id), kind, data: JSON.parse(data) }
  })
}
