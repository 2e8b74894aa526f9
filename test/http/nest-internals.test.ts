import 'reflect-metadata';
import { Body, Header, Headers, Param, Query, Redirect, Req, UseFilters, UseGuards } from '@nestjs/common';
import { UseInterceptors, UsePipes } from '@nestjs/common';
import { parametersOf, usesPipeline } from '../../src/http/nest-internals.js';
import { parameterOf } from '../../src/http/controllers.js';
import { type Service, startService } from '../policies/service.fixture.js';

/** What the service relies on in Nest beyond its public interface: fails when a version of Nest changes it. */

const Path = parameterOf(({ url }) => url);
const part = { canActivate: () => true, transform: () => 1, catch: () => 1, intercept: () => 1 } as never;

class TestController {
  method(
    @Req() _request: unknown,
    @Body() _body: unknown,
    @Query('name', part) _query: unknown,
    @Param() _params: unknown,
    @Headers() _headers: unknown,
    @Path() _path: unknown,
  ): void {}
  plain(): void {}
  @UseGuards(part) guarded(): void {}
  @UseInterceptors(part) intercepted(): void {}
  @UsePipes(part) piped(): void {}
  @UseFilters(part) filtered(): void {}
  @Header('a', 'b') withHeader(): void {}
  @Redirect('/') redirected(): void {}
}

test('the parameters of a controller’s method, with their kinds, pipes and factories', () => {
  const found = parametersOf(TestController, 'method').sort((a, b) => a.index - b.index);
  expect(found.map(({ kind }) => kind)).toEqual(['request', 'body', 'query', 'params', undefined, 'custom']);
  expect(found[2]).toMatchObject({ data: 'name', pipes: [part] });
  const { factory } = found[5]!;
  expect(factory!.read!({ url: '/here' } as never, {} as never)).toBe('/here');
  const http = { getRequest: () => ({ url: '/there' }), getResponse: () => ({}) };
  expect(factory!(undefined, { switchToHttp: () => http } as never)).toBe('/there');
  expect(parametersOf(TestController, 'plain')).toEqual([]);
});

test.each(['guarded', 'intercepted', 'piped', 'filtered', 'withHeader', 'redirected'] as const)(
  'a %s method needs the pipeline',
  (method) => {
    expect(usesPipeline(TestController, TestController.prototype[method])).toBe(true);
  },
);

test('a plain method needs no pipeline', () => {
  expect(usesPipeline(TestController, TestController.prototype.plain)).toBe(false);
});

describe('the server', () => {
  let service: Service;
  beforeAll(async () => void (service = await startService()));
  afterAll(() => service.close());

  test('has no hooks of Nest’s adapter, whose onResponse would cost every answer a listener', () => {
    // Fastify lists the hooks of a route in its tree of routes.
    const tree: string = service.app.getHttpAdapter().getInstance().printRoutes({ includeHooks: true });
    expect(tree).toContain('• (onSend)');
    expect(tree).not.toContain('• (onResponse)');
  });
});
