/* Generated loops as instructions, for AVX-512 and AVX2: with emit_lanes.hh all that knows Xbyak.
 */
#include "kernels/jit/emit_lanes.hh"

#include <utility>

namespace
{

class emitter : lanes_emitter
{
  public:
    emitter(const td_loop *loop, void *code, size_t room, uint32_t *places)
        : lanes_emitter(loop, code, room), at(places)
    {
    }

    size_t all()
    {
        const Reg64 kept[] = {rbx, rbp, r12, r13, r14, r15};
        for (const Reg64 &r : kept)
            push(r);
        for (int s = 0; s < l->n_streams; s++)
            mov(stream(s), arg(offsetof(td_loop_args, base), s));
        mov(rows, arg(offsetof(td_loop_args, rows), 0));
        mov(n, arg(offsetof(td_loop_args, n), 0));
        lea(last, ptr[n - round()]);
        rows_loop();
        vzeroupper();
        for (int i = 5; i >= 0; i--)
            pop(kept[i]);
        ret();
        tables();
        return GetError() ? 0 : getSize();
    }

  private:
    uint32_t *at;
    const int sums = td_loop_room(wide).values - TD_LOOP_COPIES; /* the first of four registers */
    const Reg64 limit = rbp, rows = r13, last = r14;
    Label slow;

    int round() const
    {
        return lanes * l->copies;
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

    void binary(td_loop_op op, const Xmm &d, const Xmm &a, const Operand &b)
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

    void total(const td_loop_step &x)
    {
        Xmm all = R(sums + x.copy), few = R(sums + 1), value = R(x.a), tail = R(wide ? 31 : 14);
        if (x.part != TD_LOOP_CAREFUL)
            return vaddps(all, all, value);
        Label rest, done;
        cmp(left, lanes);
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
        with(x.b, [&](const Operand &b) {
            wide ? vcmpps(K(x.d), R(x.a), b, x.imm) : vcmpps(R(x.d), R(x.a), b, x.imm);
        });
    }

    void select(const td_loop_step &x)
    {
        with(x.b, [&](const Operand &b) {
            wide ? vblendmps(R(x.d) | K(x.a), R(x.c), b) : vblendvps(R(x.d), R(x.c), b, R(x.a));
        });
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
            with(x.b, [&](const Operand &b) { binary((td_loop_op)x.op, R(x.d), R(x.a), b); });
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
