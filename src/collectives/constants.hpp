// SPDX-License-Identifier: MIT
// The constants from which times are predicted: which algorithm runs between nodes, and which ones
// are tried first on one node, where they are measured then.
#pragma once

namespace qpmesh::collectives {

// Of a small message between nodes, each further one of a rank, and a byte of a long one. These are
// of verbs; init measures its own network, unless the choice is to be by predictions alone.
struct NetworkTimes {
  double latency_s = 2.0e-6;
  double overhead_s = 0.25e-6;
  double byte_s = 0.08e-9;
};

// Seconds, seconds per byte, bytes; measured on two cores of a virtual machine, and rounded.
struct Constants {
  // A step of a collective that another core waits for: a cache line that travels, and the call
  // around it.
  double line_s = 0.18e-6;
  // The same where ranks share a core, for each of them: it gets the core, works and gives it away.
  double turn_s = 1.2e-6;
  // Calling the system to copy out of another process, without the bytes.
  double system_copy_s = 2.2e-6;
  double system_page_s = 0.28e-6;    // looking up one of the pages that it copies then
  double copied_byte_s = 0.018e-9;   // inside the cache of a core
  double crossed_byte_s = 0.025e-9;  // out of, or into, what another core has in its cache
  // The same while a rank's own vectors pass through a cache that they do not fit.
  double evicted_byte_s = 0.06e-9;
  double core_cache_bytes = 1 << 20;  // that cache
  double memory_byte_s = 0.15e-9;     // of what is too long for the cache
  double past_byte_s = 0.08e-9;       // past the caches to another core, there or back
  double reduced_byte_s = 0.026e-9;   // an operand combined with another, in the cache
  // Vectors of all ranks of a node, in and out together, that fit the cache.
  double cache_bytes = 16 << 20;
  double message_latency_s = 0.27e-6;   // a small one on a node, until its receiver goes on
  double message_payload_s = 0.20e-6;   // more for one that does not fit its record
  double message_overhead_s = 0.20e-6;  // each further message of a rank
  double message_byte_s = 0.18e-9;      // into a ring and out of it
  NetworkTimes network{};
};

}  // namespace qpmesh::collectives
