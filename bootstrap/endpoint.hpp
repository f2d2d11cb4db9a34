// All that one host and TCP differ in: where the root listens, how a rank gets there, and who may
// come in.
#pragma once

#include <optional>
#include <string>

#include "base/owned.hpp"
#include "bootstrap/star_wire.hpp"

namespace qpmesh::bootstrap {

class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // The root's listening socket, non-blocking. Throws Error{bad_config} when the address is taken
  // or not ours.
  virtual base::UniqueFd listen() = 0;

  // One attempt of a rank; takes no longer than the deadline. A socket, or what went wrong.
  struct Attempt {
    base::UniqueFd fd;
    int error = 0;          // errno, or 0
    std::string problem{};  // "connect to 127.0.0.1:4000"
  };
  virtual Attempt connect(Deadline deadline) = 0;

  // What the kernel says about the process at the other end: nothing if it may be one of us,
  // otherwise why not.
  virtual std::optional<std::string> reject_reason(int fd) const = 0;

  // Sets an accepted socket up. 0 or errno.
  virtual int prepare(int fd) const = 0;

  // Of a connection or listener: the address of this host that it uses, in numbers. Empty: no
  // address that means anything to another host.
  virtual std::string local_address(int fd) const = 0;

  virtual std::string describe() const = 0;  // for people: "127.0.0.1:4000"
  // For people: what ranks must have in common to meet here
  virtual std::string terms() const = 0;
  virtual const Key& key() const = 0;  // proofs are made with it
  virtual std::string secret_hint() const = 0;
};

}  // namespace qpmesh::bootstrap
