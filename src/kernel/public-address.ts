import type { AddressInfo } from 'node:net';
import { Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { Config } from './config.js';

/** Where clients reach the service: the issuer of its tokens, and what wallets sign in to. */
@Injectable()
export class PublicAddress {
  /** Cached: every access check needs it, and it costs a system call. */
  private bound: string | undefined;

  constructor(
    private readonly config: Config,
    private readonly host: HttpAdapterHost,
  ) {}

  /** CREDENCE_PUBLIC_URL, or else the address the service listens on. */
  get url(): string {
    const { publicUrl, host, port } = this.config;
    if (publicUrl !== undefined) return publicUrl;
    if (this.bound !== undefined) return this.bound;
    const address = this.host.httpAdapter.getHttpServer().address() as AddressInfo | null;
    const url = `http://${host.includes(':') ? `[${host}]` : host}:${address?.port ?? port}`;
    if (address) this.bound = url;
    return url;
  }
}
