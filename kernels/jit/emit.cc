/* Generated loops as instructions, for AVX-512 and AVX2: the only file that knows Xbyak. */
#define XBYAK_NO_EXCEPTION
#include "kernels/jit/loop.h"

#include <utility>
#include <xbyak/xbyak.h>

using namespace Xbyak;

namespace
{

class emitter : CodeGenerator
{
  public:
    emitter(const td_loop *loop, void *code, size_t room, uint32_t *places)
        : CodeGenerator(room, code), l(loop), at(places), wide(loop->wide), lanes(wide ? 16 : 8)
    {
    }

    size_t all()
    {
        const Reg64 kept[] = {rbx, rbp, r12, r13, r14};
        for (const Reg64 &r : kept)
            push(r);
        for (int s = 0; s < l->n_streams; s++)
            mov(stream(s), arg(offsetof(td_loop_args, base), s));
        mov(rows, arg(offsetof(td_loop_args, rows), 0));
        mov(n, arg(offsetof(td_loop_args, n), 0));
        lea(last, ptr[n - round()]);
        rows_loop();
        vzeroupper();
        for (int i = 4; i >= 0; i--)
            pop(kept[i]);
        ret();
        tables();
        return GetError() ? 0 : getSize();
    }

  private:
    const td_loop *l;
    uint32_t *at;
    const bool wide;
    const int lanes;
    const int sums = td_loop_room(wide).values - TD_LOOP_COPIES; /* the first of four registers */
    const Reg64 args = rdi, i = rcx, n = rbx, limit = rbp, rows = r13, last = r14;
    Label pool, iota, slow;

    int round() const
    {
        return lanes * l->copies;
    }
    static Reg64 stream(int s)
    {
        static const int all[TD_LOOP_STREAMS] = {Operand::RSI, Operand::RDX, Operand::R8,
                                                 Operand::R9,  Operand::R10, Operand::R11,
                                                 Operand::R12};
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
    Address element(const td_loop_step &x, bool side_by_side) const
    {
        return side_by_side ? ptr[stream(x.imm) + i * 4 + 4 * lanes * x.copy] : ptr[stream(x.imm)];
    }

    void rows_loop()
    {
        Label row, main, main_test, careful, careful_test, rest;
        L(row);
        part(TD_LOOP_ROW);
        for (int k = sums; k < sums + TD_LOOP_COPIES && l->sum >= 0; k++)
            vxorps(Xmm(k), Xmm(k), Xmm(k));
        xor_(i.cvt32(), i.cvt32());
        L(main_test);
        cmp(i, last);
        jg(rest, T_NEAR);
        align(32);
        L(main);
        part(TD_LOOP_MAIN);
        add(i, round());
        cmp(i, last);
        jle(main, T_NEAR);
        L(rest);
        mov(limit, n);
        jmp(careful_test, T_NEAR);
        L(slow); /* this round again */
        lea(limit, ptr[i + round()]);
        L(careful);
        count_lanes();
        part(TD_LOOP_CAREFUL);
        add(i, lanes);
        L(careful_test);
        cmp(i, limit);
        jl(careful, T_NEAR);
        cmp(i, n);
        jl(main_test, T_NEAR);
        if (l->sum >= 0)
            store_sum();
        for (int s = 0; s < l->n_streams; s++)
            add(stream(s), arg(offsetof(td_loop_args, row_step), s));
        dec(rows);
        jnz(row, T_NEAR);
    }

    void count_lanes()
    {
        mov(rax, n);
        sub(rax, i);
        if (wide) {
            vpbroadcastd(Zmm(31), eax);
            vpcmpgtd(counted_mask(), Zmm(31), zword[rip + iota]);
        } else {
            vmovd(Xmm(15), eax);
            vpbroadcastd(Ymm(15), Xmm(15));
            vpcmpgtd(Ymm(15), Ymm(15), yword[rip + iota]);
        }
    }

    void note(int k)
    {
        if (at)
            at[k] = (uint32_t)getSize();
    }

    void part(td_loop_part which)
    {
        for (int k = 0; k < l->n_steps; k++)
            if (l->step[k].part == which) {
                note(k);
                step(l->step[k]);
            }
    }

    template <class B> void binary(td_loop_op op, const Xmm &d, const Xmm &a, const B &b)
    {
        switch (op) {
#define TD_AS(id, instruction)                                                                     \
    case TD_LOOP_##id:                                                                             \
        return instruction(d, a, b);
            TD_AS(add, vaddps)
            TD_AS(sub, vsubps)
            TD_AS(mul, vmulps)
            TD_AS(div, vdivps)
            TD_AS(min, vminps)
            TD_AS(max, vmaxps)
            TD_AS(and, vandps)
            TD_AS(or, vorps)
            TD_AS(xor, vxorps)
            TD_AS(iadd, vpaddd)
            TD_AS(isub, vpsubd)
#undef TD_AS
        default:
            return vscalefps(d, a, b);
        }
    }

    void move(int d, int from)
    {
        if (d != from)
            vmovaps(R(d), R(from));
    }

    /* The three forms, by whose place the result takes and which one is in memory. */
    void fused(const td_loop_step &x)
    {
        bool less = x.op == TD_LOOP_fnma;
        int a = x.a, b = x.b, c = x.c;
        if (b >= 0 && x.d == b)
            std::swap(a, b);
        if (x.d == a || c < 0) { /* d is not b either */
            move(x.d, a);
            if (b < 0)
                less ? vfnmadd132ps(R(x.d), R(c), memory(b)) : vfmadd132ps(R(x.d), R(c), memory(b));
            else if (c < 0)
                less ? vfnmadd213ps(R(x.d), R(b), memory(c)) : vfmadd213ps(R(x.d), R(b), memory(c));
            else
                less ? vfnmadd213ps(R(x.d), R(b), R(c)) : vfmadd213ps(R(x.d), R(b), R(c));
            return;
        }
        move(x.d, c);
        if (b < 0)
            less ? vfnmadd231ps(R(x.d), R(a), memory(b)) : vfmadd231ps(R(x.d), R(a), memory(b));
        else
            less ? vfnmadd231ps(R(x.d), R(a), R(b)) : vfmadd231ps(R(x.d), R(a), R(b));
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

    void store(const td_loop_step &x)
    {
        if (x.part != TD_LOOP_CAREFUL)
            vmovups(element(x, true), R(x.a));
        else if (wide)
            vmovups(element(x, true) | counted_mask(), Zmm(x.a));
        else
            vmaskmovps(element(x, true), Ymm(15), Ymm(x.a));
    }

    void total(const td_loop_step &x)
    {
        Xmm all = R(sums + x.copy), few = R(sums + 1), value = R(x.a), tail = R(wide ? 31 : 14);
        if (x.part != TD_LOOP_CAREFUL)
            return vaddps(all, all, value);
        Label rest, done;
        cmp(rax, lanes); /* so many are left, as count_lanes says */
        jl(rest);
        vaddps(all, all, value);
        jmp(done);
        L(rest);
        wide ? vmovaps(tail | counted_mask() | T_z, value) : vandps(tail, Ymm(15), value);
        vaddps(few, few, tail);
        L(done);
    }

    void store_sum() /* halves are joined until one lane is left */
    {
        const int a = sums, b = sums + 1;
        vaddps(R(a), R(a), R(b));
        vaddps(R(b), R(sums + 2), R(sums + 3));
        vaddps(R(a), R(a), R(b));
        if (wide) {
            vextractf64x4(Ymm(b), Zmm(a), 1);
            vaddps(Ymm(a), Ymm(a), Ymm(b));
        }
        wide ? vextractf32x4(Xmm(b), Ymm(a), 1) : vextractf128(Xmm(b), Ymm(a), 1);
        vaddps(Xmm(a), Xmm(a), Xmm(b));
        for (uint8_t lanes_from : {0x0e, 0x01}) {
            vpermilps(Xmm(b), Xmm(a), lanes_from);
            vaddps(Xmm(a), Xmm(a), Xmm(b));
        }
        vmovss(ptr[stream(l->sum)], Xmm(a));
    }

    void guard(const td_loop_step &x)
    {
        if (wide)
            kortestw(K(x.a), K(x.a));
        else
            vtestps(Ymm(x.a), Ymm(x.a));
        jnz(slow, T_NEAR);
    }

    void compare(const td_loop_step &x)
    {
        if (wide && x.b < 0)
            vcmpps(K(x.d), Zmm(x.a), memory(x.b), x.imm);
        else if (wide)
            vcmpps(K(x.d), Zmm(x.a), Zmm(x.b), x.imm);
        else if (x.b < 0)
            vcmpps(Ymm(x.d), Ymm(x.a), memory(x.b), x.imm);
        else
            vcmpps(Ymm(x.d), Ymm(x.a), Ymm(x.b), x.imm);
    }

    void select(const td_loop_step &x)
    {
        if (wide && x.b < 0)
            vblendmps(Zmm(x.d) | K(x.a), Zmm(x.c), memory(x.b));
        else if (wide)
            vblendmps(Zmm(x.d) | K(x.a), Zmm(x.c), Zmm(x.b));
        else if (x.b < 0)
            vblendvps(Ymm(x.d), Ymm(x.c), memory(x.b), Ymm(x.a));
        else
            vblendvps(Ymm(x.d), Ymm(x.c), Ymm(x.b), Ymm(x.a));
    }

    void masks(const td_loop_step &x)
    {
        if (x.op == TD_LOOP_both)
            wide ? kandw(K(x.d), K(x.a), K(x.b)) : vandps(R(x.d), R(x.a), R(x.b));
        else if (x.op == TD_LOOP_either)
            wide ? korw(K(x.d), K(x.a), K(x.b)) : vorps(R(x.d), R(x.a), R(x.b));
        else if (wide)
            knotw(K(x.d), K(x.a));
        else {
            vpcmpeqd(Ymm(14), Ymm(14), Ymm(14));
            vxorps(R(x.d), R(x.a), Ymm(14));
        }
    }

    void step(const td_loop_step &x)
    {
        switch (x.op) {
        case TD_LOOP_set:
            if (wide)
                vbroadcastss(Zmm(x.d), l->constant[-2 - x.a].param < 0
                                           ? dword[rip + pool + 4 * (-2 - x.a)]
                                           : dword[args + (int)offsetof(td_loop_args, param) +
                                                   32 * l->constant[-2 - x.a].param]);
            else
                vmovups(Ymm(x.d), memory(x.a));
            break;
        case TD_LOOP_load:
            load(x);
            break;
        case TD_LOOP_store:
            store(x);
            break;
        case TD_LOOP_guard:
            guard(x);
            break;
        case TD_LOOP_total:
            total(x);
            break;
        case TD_LOOP_fma:
        case TD_LOOP_fnma:
            fused(x);
            break;
        case TD_LOOP_shl:
            vpslld(R(x.d), R(x.a), x.imm);
            break;
        case TD_LOOP_sar:
            vpsrad(R(x.d), R(x.a), x.imm);
            break;
        case TD_LOOP_sqrt:
            vsqrtps(R(x.d), R(x.a));
            break;
        case TD_LOOP_round:
            wide ? vrndscaleps(Zmm(x.d), Zmm(x.a), x.imm) : vroundps(Ymm(x.d), Ymm(x.a), x.imm);
            break;
        case TD_LOOP_whole:
            vcvttps2dq(R(x.d), R(x.a));
            break;
        case TD_LOOP_real:
            vcvtdq2ps(R(x.d), R(x.a));
            break;
        case TD_LOOP_compare:
            compare(x);
            break;
        case TD_LOOP_select:
            select(x);
            break;
        case TD_LOOP_both:
        case TD_LOOP_either:
        case TD_LOOP_not:
            masks(x);
            break;
        default:
            if (x.b < 0)
                binary((td_loop_op)x.op, R(x.d), R(x.a), memory(x.b));
            else
                binary((td_loop_op)x.op, R(x.d), R(x.a), R(x.b));
        }
    }

    void tables()
    {
        align(64);
        note(l->n_steps);
        L(iota);
        for (uint32_t k = 0; k < 16; k++)
            dd(k);
        L(pool);
        for (int k = 0; k < l->n_constants; k++)
            for (int j = 0; j < (wide ? 1 : 8); j++)
                dd(l->constant[k].bits);
    }
};

} // namespace

size_t td_loop_emit(const td_loop *l, void *code, size_t room, uint32_t *at)
{
    ClearError();
    emitter e(l, code, room, at);
    return e.all();
}
