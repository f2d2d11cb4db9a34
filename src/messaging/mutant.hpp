// SPDX-License-Identifier: MIT
// Deliberate damage, one piece at a time: the simulation must notice every one of them (ctest -L
// mutants). Only the mutants' program is built so that it can choose; everywhere else there is
// none, and the compiler knows it.
#pragma once

#include <cstdint>

namespace qpmesh::messaging {

enum class Mutant : std::uint8_t {
  none,
  checksum,                // a polled record's checksum is not compared
  tail,                    // nor its tail
  equality,                // a sequence word that is set counts as the expected one
  line_clearing,           // consumed lines keep their bytes
  release_order,           // lines are released before their message is handled
  credit_after_last_read,  // payload is given back while an unmatched message still lies in it
  reserved_lines,          // data takes the lines kept for rendezvous control
  staging,                 // staging is reused before its completion
  pair_order,              // a send overtakes those that wait for credits
  flag_order,              // the record is written before its payload
  ring_size,               // a sender believes that the rings are one line and one unit larger
  revocation,              // memory goes back while a device may still touch it
  revoke_word,             // what is told of revokes is not looked at before a message is posted
  taken_count,             // who takes over is told of one message less than was taken
  lost_counts,             // counts that a failed rail may have lost are not told again
  ready_lines,             // who stands ready for one message is so for later ones of its name
};

#ifdef QPMESH_WITH_MUTANTS
inline Mutant mutant = Mutant::none;  // of the process
#else
inline constexpr Mutant mutant = Mutant::none;
#endif

}  // namespace qpmesh::messaging
