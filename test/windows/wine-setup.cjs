// Wine 8 refuses TCP_KEEPIDLE, which libuv sets before the connect: then the connect fails. Not so after it.
const { Socket } = require("node:net");
const set = Socket.prototype.setKeepAlive;
Socket.prototype.setKeepAlive = function (...args) {
  return this.connecting || this.pending ? this : set.apply(this, args);
};
