/* How generated code reaches vectors: its registers, what lies in memory, and the lanes that count
 * at a row's end. Internal to emit.cc. */
#ifndef TD_KERNELS_JIT_EMIT_LANES_H
#define TD_KERNELS_JIT_EMIT_LANES_H

#define XBYAK_NO_EXCEPTION
#include "kernels/jit/loop.h"

#include <xbyak/xbyak.h>

using namespace Xbyak;

namespace
{

class lanes_emitter : protected CodeGenerator
{
  protected:
    lanes_emitter(const td_loop *loop, void *code, size_t room)
        : CodeGenerator(room, code), l(loop), wide(loop->wide), lanes(wide ? 16 : 8)
    {
    }

    const td_loop *l;
    const bool wide;
    const int lanes;
    const Reg64 args = rdi, i = rcx, n = rbx, left = rax, at_end = r15;
    Label pool, iota;

    static Reg64 stream(int s)
    {
        static const int all[TD_LOOP_STREAMS] = {
#define TD_STREAM(id, name) Operand::id,
#include "kernels/jit/streams.def"
#undef TD_STREAM
        };
        return Reg64(all[s]);
    }
    Address arg(size_t offset, int k) const
    {
        return qword[args + (int)offset + 8 * k];
    }
    Xmm R(int r) const
    {
        return wide ? (Xmm)Zmm(r) : (Xmm)Ymm(r);
    }
    static Opmask K(int r)
    {
        return Opmask(r - TD_LOOP_MASK);
    }
    Opmask counted_mask() const /* AVX-512: of the lanes that count; AVX2 has them in ymm15 */
    {
        return k7;
    }
    Address memory(int operand) const
    {
        int k = -2 - operand, param = l->constant[k].param;
        if (param < 0)
            return wide ? zword_b[rip + pool + 4 * k] : yword[rip + pool + 32 * k];
        int at = (int)offsetof(td_loop_args, param) + 32 * param;
        return wide ? zword_b[args + at] : yword[args + at];
    }
    template <class F> void with(int operand, F f)
    {
        if (operand < 0)
            f(memory(operand));
        else
            f(R(operand));
    }
    Address element(const td_loop_step &x, bool side_by_side) const
    {
        return side_by_side ? ptr[stream(x.imm) + i * 4 + 4 * lanes * x.copy] : ptr[stream(x.imm)];
    }

    /* left: elements from i on, whose lanes count. */
    void count_lanes()
    {
        mov(left, n);
        sub(left, i);
        if (wide) {
            vpbroadcastd(Zmm(31), eax);
            vpcmpgtd(counted_mask(), Zmm(31), zword[rip + iota]);
        } else {
            vmovd(Xmm(15), eax);
            vpbroadcastd(Ymm(15), Xmm(15));
            vpcmpgtd(Ymm(15), Ymm(15), yword[rip + iota]);
        }
    }

    void load(const td_loop_step &x)
    {
        if (l->still[x.imm])
            vbroadcastss(R(x.d), element(x, false));
        else if (x.part != TD_LOOP_CAREFUL)
            vmovups(R(x.d), element(x, true));
        else if (wide)
            vmovups(Zmm(x.d) | counted_mask() | T_z, element(x, true));
        else
            vmaskmovps(Ymm(x.d), Ymm(15), element(x, true));
    }

    /* A store by a mask takes many operations on some CPUs: whole vectors have none. */
    void store(const td_loop_step &x)
    {
        Label some, done;
        if (x.part == TD_LOOP_CAREFUL) {
            cmp(left, lanes);
            jl(some);
        }
        vmovups(element(x, true), R(x.a));
        if (x.part != TD_LOOP_CAREFUL)
            return;
        jmp(done);
        L(some);
        if (wide)
            vmovups(element(x, true) | counted_mask(), Zmm(x.a));
        else
            store_some(x);
        L(done);
    }

    void store_some(const td_loop_step &x) /* AVX2: the lanes that count, by 4, 2 and 1 */
    {
        const Xmm tail = xmm14;
        Label two, one, none;
        lea(at_end, element(x, true));
        vmovaps(tail, Xmm(x.a));
        test(al, 4);
        jz(two);
        vmovups(ptr[at_end], tail);
        vextractf128(tail, Ymm(x.a), 1);
        add(at_end, 16);
        L(two);
        test(al, 2);
        jz(one);
        vmovlps(ptr[at_end], tail);
        vmovhlps(tail, tail, tail);
        add(at_end, 8);
        L(one);
        test(al, 1);
        jz(none);
        vmovss(ptr[at_end], tail);
        L(none);
    }
};

} // namespace

#endif
