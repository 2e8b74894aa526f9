import Fastify from 'fastify';

/** The peer of the HTTP benchmarks: answers the bytes it is given, with no convention, no validation and no storage. */
const [get, post] = [JSON.parse(process.env.GET_BODY), JSON.parse(process.env.POST_BODY)];
const check = process.env.CHECK_BODY && JSON.parse(process.env.CHECK_BODY);
const fastify = Fastify();
fastify.get('/api/disc-score/:tris_id', () => get);
fastify.post('/api/decision-relay', (_request, reply) => reply.code(202).send(post));
fastify.post('/v1/policies/ap/check', () => check);
console.log(await fastify.listen({ port: 0, host: '127.0.0.1' }));
process.once('SIGTERM', () => fastify.close());
