// The server under test: examples/server with the offline model.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const example = (name) => fileURLToPath(new URL(`../../examples/${name}`, import.meta.url))

/**
 * Builds and starts a server, or another example that says where it listens, in a directory of its own. It returns its
 * URL and directory; stop, which waits for its end; and kill and start, which is where it was before.
 */
export async function startServer(args = ['-store', 'memory:'], name = 'server') {
  const dir = mkdtempSync(join(tmpdir(), 'everstep-'))
  const binary = join(dir, name)
  execFileSync('go', ['build', '-o', binary, '.'], { cwd: example(name), stdio: 'inherit' })
  let child, ended
  const start = async (addr) => {
    child = spawn(binary, ['-addr', addr, ...args], { cwd: dir, stdio: ['ignore', 'pipe', 'inherit'] })
    ended = once(child, 'exit')
    const died = ended.then(([code]) => Promise.reject(new Error(`the server ended with code ${code}`)))
    died.catch(() => {}) // that is for those who wait for its line
    const [line] = await Promise.race([once(createInterface(child.stdout), 'line'), died])
    return line.replace('listening on ', '')
  }
  const end = async (signal) => {
    child.kill(signal)
    await ended
  }
  const url = await start('127.0.0.1:0')
  return {
    url,
    dir,
    kill: () => end('SIGKILL'),
    start: () => start(new URL(url).host),
    async stop() {
      await end('SIGTERM')
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
