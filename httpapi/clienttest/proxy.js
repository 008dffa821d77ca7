// A TCP proxy that cuts connections where a test wants it.
import { once } from 'node:events'
import net from 'node:net'

// A cut says where a connection ends: it gets the bytes that the server has sent so far, one character for each, and
// returns how many of them the client gets before the end, or -1 if the end is not among them yet.

/** After that many bytes; the headers of the answer are about 200. */
export const atByte = (n) => (sent) => (sent.length >= n ? n : -1)

/** Within a line of the n-th event of the connection: 'id', 'event' or 'data'. */
export const inLine = (n, field) => (sent) => end(sent, `\n${field}: `, n, 1)

/** Between the last two lines of the n-th event. */
export const beforeId = (n) => (sent) => end(sent, '\nid: ', n, -'id: '.length)

/** After the last line of the n-th event, whose id a client must not count before the empty line behind it. */
export const afterId = (n) => (sent) => end(sent, '\n\n', n, -1)

/** Between two events, after the n-th. */
export const afterEvent = (n) => (sent) => end(sent, '\n\n', n, 0)

/** Within the n-th character that is more than one byte. */
export const inCharacter = (n) => (sent) => {
  const starts = [...sent.matchAll(/[\xc2-\xf4]/g)]
  return starts.length < n ? -1 : starts[n - 1].index + 1
}

/** Within the first event of a kind, somewhere in its data. */
export const within = (kind) => (sent) => end(sent, `"kind":"${kind}"`, 1, 20)

/** Where the n-th text ends, and some bytes more or less, if those have been sent too. */
function end(sent, text, n, more) {
  let at = 0
  for (; n > 0; n--) {
    at = sent.indexOf(text, at)
    if (at < 0) return -1
    at += text.length
  }
  return at + more <= sent.length ? at + more : -1
}

/**
 * Starts a proxy of a server. Its connections are cut one after the other as the cuts say; the rest are left alone.
 * Every other one is not closed but reset. It returns its URL, how many cuts were made, and stop.
 */
export async function startProxy(target, cuts) {
  const { hostname, port } = new URL(target)
  const open = new Set()
  const proxy = { made: 0 }
  let connections = 0
  const server = net.createServer((client) => {
    const n = connections++
    const cut = cuts[n]
    const upstream = net.connect({ host: hostname, port, noDelay: true })
    let sent = ''
    client.setNoDelay(true)
    for (const socket of [client, upstream]) {
      open.add(socket)
      socket.on('error', () => {}) // its close follows
    }
    client.on('close', () => upstream.destroy()).on('close', () => open.delete(client))
    upstream.on('close', () => client.destroySoon()).on('close', () => open.delete(upstream))
    client.pipe(upstream, { end: false })
    upstream.on('data', (chunk) => {
      if (!cut) return client.write(chunk)
      const before = sent.length
      sent += chunk.toString('latin1')
      const at = cut(sent)
      if (at < 0) return client.write(chunk)
      proxy.made++
      upstream.removeAllListeners('data').removeAllListeners('close').destroy()
      const over = () => (n % 2 ? client.resetAndDestroy() : client.destroy())
      if (at > before) client.write(chunk.subarray(0, at - before), over)
      else over()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return Object.assign(proxy, {
    url: `http://127.0.0.1:${server.address().port}`,
    async stop() {
      server.close()
      for (const socket of open) socket.destroy()
      await once(server, 'close')
    },
  })
}
